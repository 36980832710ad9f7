import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.TreeMap;
import java.util.zip.CRC32;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.coders.ByteArrayCoder;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.coders.VarIntCoder;
import org.apache.beam.sdk.coders.VarLongCoder;
import org.apache.beam.sdk.options.Default;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.state.StateSpec;
import org.apache.beam.sdk.state.StateSpecs;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.state.Timer;
import org.apache.beam.sdk.state.TimerSpec;
import org.apache.beam.sdk.state.TimerSpecs;
import org.apache.beam.sdk.state.ValueState;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.Impulse;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.Reshuffle;
import org.apache.beam.sdk.transforms.Sum;
import org.apache.beam.sdk.transforms.windowing.GlobalWindow;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PCollection;
import org.joda.time.Duration;
import org.joda.time.Instant;

/** The jobs of benchmarks/jobs that are run in every SDK; each ends in a file with sums. */
public final class Jobs {
  private static final int SHARDS = 8;
  private static final int MAPS = 5;
  private static final int STRIDE = 7919;
  private static final int VALUES = 1000;
  private static final Instant FIRES = new Instant(2_000_000_000L);

  private Jobs() {}

  /** What can be asked for. */
  public interface Options extends PipelineOptions {
    String getJob();

    void setJob(String job);

    @Default.Long(1000)
    long getElements();

    void setElements(long elements);

    @Default.Long(1)
    long getKeys();

    void setKeys(long keys);

    String getOut();

    void setOut(String out);
  }

  static long crc(String key) {
    CRC32 crc = new CRC32();
    crc.update(key.getBytes(StandardCharsets.UTF_8));
    return crc.getValue();
  }

  static String padded(char first, int digits, long number) {
    String text = Long.toString(number);
    StringBuilder padded = new StringBuilder(digits + 1);
    if (first != 0) {
      padded.append(first);
    }
    for (int zeros = digits - text.length(); zeros > 0; zeros--) {
      padded.append('0');
    }
    return padded.append(text).toString();
  }

  /** The spans of numbers, which are spread. */
  static class Spans extends DoFn<byte[], KV<Long, Long>> {
    private final long n;

    Spans(long n) {
      this.n = n;
    }

    @ProcessElement
    public void process(OutputReceiver<KV<Long, Long>> spans) {
      for (int shard = 0; shard < SHARDS; shard++) {
        spans.output(KV.of(n * shard / SHARDS, n * (shard + 1) / SHARDS));
      }
    }
  }

  static class Numbers extends DoFn<KV<Long, Long>, Long> {
    @ProcessElement
    public void process(@Element KV<Long, Long> span, OutputReceiver<Long> numbers) {
      for (long i = span.getKey(); i < span.getValue(); i++) {
        numbers.output(i);
      }
    }
  }

  static class Pairs extends DoFn<KV<Long, Long>, KV<String, byte[]>> {
    private final long keys;

    Pairs(long keys) {
      this.keys = keys;
    }

    @ProcessElement
    public void process(@Element KV<Long, Long> span, OutputReceiver<KV<String, byte[]>> pairs) {
      for (long i = span.getKey(); i < span.getValue(); i++) {
        byte[] value = padded((char) 0, 20, i).getBytes(StandardCharsets.UTF_8);
        pairs.output(KV.of(padded('k', 7, i * STRIDE % keys), value));
      }
    }
  }

  static class Keyed extends DoFn<KV<Long, Long>, KV<String, Long>> {
    private final long keys;
    private final boolean equal;

    Keyed(long keys, boolean equal) {
      this.keys = keys;
      this.equal = equal;
    }

    @ProcessElement
    public void process(@Element KV<Long, Long> span, OutputReceiver<KV<String, Long>> pairs) {
      for (long i = span.getKey(); i < span.getValue(); i++) {
        long value = (equal ? i % keys : i) % VALUES;
        pairs.output(KV.of(padded('k', 6, i % keys), value));
      }
    }
  }

  static class AddOne extends DoFn<Long, Long> {
    @ProcessElement
    public void process(@Element Long number, OutputReceiver<Long> numbers) {
      numbers.output(number + 1);
    }
  }

  static class Running extends DoFn<KV<String, Long>, KV<String, Long>> {
    @StateId("sum")
    private final StateSpec<ValueState<Long>> spec = StateSpecs.value(VarLongCoder.of());

    @ProcessElement
    public void process(
        @Element KV<String, Long> pair,
        @StateId("sum") ValueState<Long> sum,
        OutputReceiver<KV<String, Long>> sums) {
      Long before = sum.read();
      long now = (before == null ? 0 : before) + pair.getValue();
      sum.write(now);
      sums.output(KV.of(pair.getKey(), now));
    }
  }

  static class Sums extends DoFn<KV<String, Long>, KV<String, Long>> {
    @StateId("sum")
    private final StateSpec<ValueState<Long>> spec = StateSpecs.value(VarLongCoder.of());

    @TimerId("end")
    private final TimerSpec end = TimerSpecs.timer(TimeDomain.EVENT_TIME);

    @ProcessElement
    public void process(
        @Element KV<String, Long> pair,
        @StateId("sum") ValueState<Long> sum,
        @TimerId("end") Timer end) {
      Long before = sum.read();
      sum.write((before == null ? 0 : before) + pair.getValue());
      end.set(FIRES);
    }

    @OnTimer("end")
    public void fire(
        @Key String key,
        @StateId("sum") ValueState<Long> sum,
        OutputReceiver<KV<String, Long>> sums) {
      sums.output(KV.of(key, sum.read()));
      sum.clear();
    }
  }

  /** Adds up, in a bundle, how many elements there are and what they are measured as. */
  abstract static class Fold<T> extends DoFn<T, KV<Integer, Long>> {
    private transient long[] columns;

    abstract int width();

    abstract void add(T element, long[] columns);

    @StartBundle
    public void start() {
      columns = new long[width()];
    }

    @ProcessElement
    public void process(@Element T element) {
      columns[0]++;
      add(element, columns);
    }

    @FinishBundle
    public void finish(FinishBundleContext context) {
      for (int column = 0; column < columns.length; column++) {
        context.output(
            KV.of(column, columns[column]), GlobalWindow.TIMESTAMP_MAX_VALUE, GlobalWindow.INSTANCE);
      }
    }
  }

  static class FoldNumbers extends Fold<Long> {
    @Override
    int width() {
      return 2;
    }

    @Override
    void add(Long number, long[] columns) {
      columns[1] += number;
    }
  }

  static class FoldSums extends Fold<KV<String, Long>> {
    @Override
    int width() {
      return 3;
    }

    @Override
    void add(KV<String, Long> pair, long[] columns) {
      columns[1] += pair.getValue();
      columns[2] += crc(pair.getKey()) * pair.getValue();
    }
  }

  static class FoldGroups extends Fold<KV<String, Iterable<byte[]>>> {
    @Override
    int width() {
      return 4;
    }

    @Override
    void add(KV<String, Iterable<byte[]>> group, long[] columns) {
      long count = 0;
      long size = 0;
      for (byte[] value : group.getValue()) {
        count++;
        size += value.length;
      }
      columns[1] += count;
      columns[2] += size;
      columns[3] += crc(group.getKey()) * count;
    }
  }

  static class One extends DoFn<KV<Integer, Long>, KV<Integer, KV<Integer, Long>>> {
    @ProcessElement
    public void process(
        @Element KV<Integer, Long> column, OutputReceiver<KV<Integer, KV<Integer, Long>>> all) {
      all.output(KV.of(0, column));
    }
  }

  static class Save extends DoFn<KV<Integer, Iterable<KV<Integer, Long>>>, Void> {
    private final String out;

    Save(String out) {
      this.out = out;
    }

    @ProcessElement
    public void process(@Element KV<Integer, Iterable<KV<Integer, Long>>> all) throws IOException {
      TreeMap<Integer, Long> columns = new TreeMap<>();
      for (KV<Integer, Long> column : all.getValue()) {
        columns.put(column.getKey(), column.getValue());
      }
      Path part = Files.createTempFile(Path.of(out), "part", "");
      Files.writeString(part, columns.values().toString());
      Files.move(part, Path.of(out, "tally.json"));
    }
  }

  private static <T> void tally(PCollection<T> elements, Fold<T> fold, String out) {
    KvCoder<Integer, Long> column = KvCoder.of(VarIntCoder.of(), VarLongCoder.of());
    elements
        .apply("Fold", ParDo.of(fold))
        .setCoder(column)
        .apply("Add", Sum.longsPerKey())
        .apply("One", ParDo.of(new One()))
        .setCoder(KvCoder.of(VarIntCoder.of(), column))
        .apply("All", GroupByKey.create())
        .apply("Save", ParDo.of(new Save(out)));
  }

  public static void main(String[] arguments) {
    PipelineOptionsFactory.register(Options.class);
    Options options = PipelineOptionsFactory.fromArgs(arguments).withValidation().as(Options.class);
    long n = options.getElements();
    Pipeline pipeline = Pipeline.create(options);
    PCollection<KV<Long, Long>> made =
        pipeline
            .apply("Impulse", Impulse.create())
            .apply("Spans", ParDo.of(new Spans(n)))
            .setCoder(KvCoder.of(VarLongCoder.of(), VarLongCoder.of()));
    if (options.getJob().equals("trivial")) {
      made.apply("Numbers", ParDo.of(new Numbers()));
    } else {
      build(made.apply("Spread", Reshuffle.viaRandomKey()), options);
    }
    System.out.println("began " + System.currentTimeMillis());
    System.exit(pipeline.run().waitUntilFinish(Duration.standardHours(1)).isTerminal() ? 0 : 1);
  }

  private static void build(PCollection<KV<Long, Long>> spans, Options options) {
    long keys = options.getKeys();
    String out = options.getOut();
    KvCoder<String, Long> sums = KvCoder.of(StringUtf8Coder.of(), VarLongCoder.of());
    switch (options.getJob()) {
      case "read":
        tally(spans.apply("Numbers", ParDo.of(new Numbers())), new FoldNumbers(), out);
        break;
      case "chain":
        PCollection<Long> numbers = spans.apply("Numbers", ParDo.of(new Numbers()));
        for (int step = 0; step < MAPS; step++) {
          numbers = numbers.apply("Before" + step, ParDo.of(new AddOne()));
        }
        numbers = numbers.apply("Reshuffle", Reshuffle.viaRandomKey());
        for (int step = 0; step < MAPS; step++) {
          numbers = numbers.apply("After" + step, ParDo.of(new AddOne()));
        }
        tally(numbers, new FoldNumbers(), out);
        break;
      case "group":
        tally(
            spans
                .apply("Pairs", ParDo.of(new Pairs(keys)))
                .setCoder(KvCoder.of(StringUtf8Coder.of(), ByteArrayCoder.of()))
                .apply("Reshuffle", Reshuffle.viaRandomKey())
                .apply("Group", GroupByKey.create()),
            new FoldGroups(),
            out);
        break;
      case "state":
        tally(
            spans
                .apply("Keyed", ParDo.of(new Keyed(keys, true)))
                .setCoder(sums)
                .apply("Running", ParDo.of(new Running()))
                .setCoder(sums),
            new FoldSums(),
            out);
        break;
      case "timers":
        tally(
            spans
                .apply("Keyed", ParDo.of(new Keyed(keys, false)))
                .setCoder(sums)
                .apply("Sums", ParDo.of(new Sums()))
                .setCoder(sums),
            new FoldSums(),
            out);
        break;
      default:
        throw new IllegalArgumentException(options.getJob());
    }
  }
}
