import java.util.ArrayList;
import java.util.List;
import org.apache.beam.model.pipeline.v1.ExternalTransforms.ExternalConfigurationPayload;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.coders.ByteArrayCoder;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.NullableCoder;
import org.apache.beam.sdk.coders.RowCoder;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.schemas.Schema;
import org.apache.beam.sdk.schemas.SchemaTranslation;
import org.apache.beam.sdk.testing.PAssert;
import org.apache.beam.sdk.transforms.MapElements;
import org.apache.beam.sdk.transforms.SimpleFunction;
import org.apache.beam.sdk.util.ByteStringOutputStream;
import org.apache.beam.sdk.util.construction.External;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PBegin;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.Row;

/** Reads the records of a topic by a transform in Python, which an expansion service gives. */
public final class FromKafka {
  private static final NullableCoder<byte[]> NULLABLE = NullableCoder.of(ByteArrayCoder.of());

  private FromKafka() {}

  /** What can be asked for. */
  public interface Options extends PipelineOptions {
    String getExpansion();

    void setExpansion(String address);

    String getBrokers();

    void setBrokers(String addresses);

    String getTopic();

    void setTopic(String name);

    int getRecords();

    void setRecords(int count);
  }

  private static byte[] payload(Options options) throws Exception {
    Schema arguments =
        Schema.builder()
            .addStringField("bootstrap_servers")
            .addStringField("topics")
            .addStringField("stop")
            .build();
    Schema schema =
        Schema.builder()
            .addStringField("constructor")
            .addRowField("kwargs", arguments)
            .build();
    Row given =
        Row.withSchema(arguments)
            .addValues(options.getBrokers(), options.getTopic(), "latest")
            .build();
    Row row =
        Row.withSchema(schema).addValues("sparkdrain.io.kafka.ReadFromKafka", given).build();
    ByteStringOutputStream bytes = new ByteStringOutputStream();
    RowCoder.of(schema).encode(row, bytes);
    return ExternalConfigurationPayload.newBuilder()
        .setSchema(SchemaTranslation.schemaToProto(schema, true))
        .setPayload(bytes.toByteString())
        .build()
        .toByteArray();
  }

  public static void main(String[] arguments) throws Exception {
    PipelineOptionsFactory.register(Options.class);
    Options options = PipelineOptionsFactory.fromArgs(arguments).as(Options.class);
    Pipeline pipeline = Pipeline.create(options);
    PCollection<KV<byte[], byte[]>> records =
        pipeline.apply(
            External.<PBegin, KV<byte[], byte[]>>of(
                    "beam:transforms:python:fully_qualified_named",
                    payload(options),
                    options.getExpansion())
                .withOutputCoder(KvCoder.of(NULLABLE, NULLABLE)));
    PCollection<String> told =
        records.apply(
            MapElements.via(
                new SimpleFunction<KV<byte[], byte[]>, String>() {
                  @Override
                  public String apply(KV<byte[], byte[]> record) {
                    return new String(record.getKey()) + " " + new String(record.getValue());
                  }
                }));
    List<String> expected = new ArrayList<>();
    for (int n = 0; n < options.getRecords(); n++) {
      expected.add("key " + n + " value " + n);
    }
    PAssert.that(told).containsInAnyOrder(expected);
    PipelineResult.State state = pipeline.run().waitUntilFinish();
    System.out.println("state " + state);
    System.exit(state == PipelineResult.State.DONE ? 0 : 1);
  }
}
