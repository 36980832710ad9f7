import java.util.Random;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.coders.ByteArrayCoder;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.VarLongCoder;
import org.apache.beam.sdk.options.Default;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.testing.PAssert;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.values.KV;

/** Groups larger than the heap of a harness, each read twice and once more amid the next one. */
public final class LargeGroup {
  private static final int BYTES = 100_000;

  private LargeGroup() {}

  /** How many values each of the two groups has. */
  public interface Options extends PipelineOptions {
    @Default.Long(3000)
    long getValues();

    void setValues(long values);
  }

  /** Values that no two elements share, which tell their numbers. */
  static final class Make extends DoFn<Long, KV<Long, byte[]>> {
    private final long values;

    Make(long values) {
      this.values = values;
    }

    @ProcessElement
    public void process(@Element Long key, OutputReceiver<KV<Long, byte[]>> made) {
      for (long number = 0; number < values; number++) {
        made.output(KV.of(key, value(key, number)));
      }
    }
  }

  private static byte[] value(long key, long number) {
    byte[] value = new byte[BYTES];
    new Random(key * 1_000_000 + number).nextBytes(value);
    for (int index = 0; index < 4; index++) {
      value[index] = (byte) (number >> (8 * index));
    }
    return value;
  }

  /** How many values there are and what their numbers are together, if each is as it was made. */
  private static String told(long key, Iterable<byte[]> values) {
    long count = 0;
    long sum = 0;
    for (byte[] value : values) {
      long number = 0;
      for (int index = 0; index < 4; index++) {
        number |= (value[index] & 255L) << (8 * index);
      }
      if (!java.util.Arrays.equals(value, value(key, number))) {
        throw new IllegalStateException("value " + number + " of key " + key + " has changed");
      }
      count++;
      sum += number;
    }
    return key + ": " + count + " values, " + sum;
  }

  /** Tells each group twice, and then again what the group before it was. */
  static final class Tell extends DoFn<KV<Long, Iterable<byte[]>>, String> {
    private KV<Long, Iterable<byte[]>> before;

    @StartBundle
    public void start() {
      before = null;
    }

    @ProcessElement
    public void process(@Element KV<Long, Iterable<byte[]>> group, OutputReceiver<String> told) {
      told.output(told(group.getKey(), group.getValue()));
      told.output(told(group.getKey(), group.getValue()));
      if (before != null) {
        told(before.getKey(), before.getValue());
      }
      before = group;
    }
  }

  public static void main(String[] arguments) {
    Options options = PipelineOptionsFactory.fromArgs(arguments).as(Options.class);
    long values = options.getValues();
    Pipeline pipeline = Pipeline.create(options);
    String rest = ": " + values + " values, " + values * (values - 1) / 2;
    PAssert.that(
            "groups",
            pipeline
                .apply("Keys", Create.of(0L, 1L))
                .apply("Make", ParDo.of(new Make(values)))
                .setCoder(KvCoder.of(VarLongCoder.of(), ByteArrayCoder.of()))
                .apply("Group", GroupByKey.create())
                .apply("Tell", ParDo.of(new Tell())))
        .containsInAnyOrder("0" + rest, "0" + rest, "1" + rest, "1" + rest);
    PipelineResult.State state = pipeline.run().waitUntilFinish();
    System.out.println("state " + state);
    System.exit(state == PipelineResult.State.DONE ? 0 : 1);
  }
}
