import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
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
import org.apache.beam.sdk.schemas.Schema.FieldType;
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

/**
 * Copies a topic by transforms in Python, which an expansion service gives; its own part is to swap
 * keys and values.
 */
public final class CopyTopic {
  private static final NullableCoder<byte[]> NULLABLE = NullableCoder.of(ByteArrayCoder.of());
  private static final String URN = "beam:transforms:python:fully_qualified_named";

  private CopyTopic() {}

  /** What can be asked for. */
  public interface Options extends PipelineOptions {
    String getExpansion();

    void setExpansion(String address);

    String getBrokers();

    void setBrokers(String addresses);

    String getTopic();

    void setTopic(String name);

    String getTo();

    void setTo(String name);

    int getRecords();

    void setRecords(int count);
  }

  /** The arguments of a transform, as Beam's expansion service for Python takes them. */
  private static byte[] payload(String constructor, Map<String, Object> arguments)
      throws Exception {
    Schema.Builder fields = Schema.builder();
    arguments.forEach(
        (name, value) ->
            fields.addField(
                name, value instanceof Boolean ? FieldType.BOOLEAN : FieldType.STRING));
    Schema kwargs = fields.build();
    Schema schema =
        Schema.builder().addStringField("constructor").addRowField("kwargs", kwargs).build();
    Row given = Row.withSchema(kwargs).addValues(arguments.values().toArray()).build();
    Row row = Row.withSchema(schema).addValues(constructor, given).build();
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
    Map<String, Object> from = new LinkedHashMap<>();
    from.put("bootstrap_servers", options.getBrokers());
    from.put("topics", options.getTopic());
    from.put("stop", "latest");
    Map<String, Object> to = new LinkedHashMap<>();
    to.put("bootstrap_servers", options.getBrokers());
    to.put("topic", options.getTo());
    to.put("with_results", true); // Java's SDK takes no transform without an output
    Pipeline pipeline = Pipeline.create(options);
    PCollection<KV<byte[], byte[]>> records =
        pipeline.apply(
            External.<PBegin, KV<byte[], byte[]>>of(
                    URN,
                    payload("sparkdrain.io.kafka.ReadFromKafka", from),
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
    records
        .apply(
            MapElements.via(
                new SimpleFunction<KV<byte[], byte[]>, KV<byte[], byte[]>>() {
                  @Override
                  public KV<byte[], byte[]> apply(KV<byte[], byte[]> record) {
                    return KV.of(record.getValue(), record.getKey());
                  }
                }))
        .setCoder(KvCoder.of(NULLABLE, NULLABLE))
        .apply(
            External.<PCollection<KV<byte[], byte[]>>, Object>of(
                URN, payload("sparkdrain.io.kafka.WriteToKafka", to), options.getExpansion()));
    PipelineResult.State state = pipeline.run().waitUntilFinish();
    System.out.println("state " + state);
    System.exit(state == PipelineResult.State.DONE ? 0 : 1);
  }
}
