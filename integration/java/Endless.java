import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.coders.VarLongCoder;
import org.apache.beam.sdk.io.range.OffsetRange;
import org.apache.beam.sdk.metrics.Counter;
import org.apache.beam.sdk.metrics.Metrics;
import org.apache.beam.sdk.options.Default;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.state.BagState;
import org.apache.beam.sdk.state.CombiningState;
import org.apache.beam.sdk.state.MapState;
import org.apache.beam.sdk.state.StateSpec;
import org.apache.beam.sdk.state.StateSpecs;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.state.Timer;
import org.apache.beam.sdk.state.TimerMap;
import org.apache.beam.sdk.state.TimerSpec;
import org.apache.beam.sdk.state.TimerSpecs;
import org.apache.beam.sdk.state.ValueState;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.Sum;
import org.apache.beam.sdk.transforms.View;
import org.apache.beam.sdk.transforms.splittabledofn.ManualWatermarkEstimator;
import org.apache.beam.sdk.transforms.splittabledofn.RestrictionTracker;
import org.apache.beam.sdk.transforms.splittabledofn.WatermarkEstimators;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.transforms.windowing.FixedWindows;
import org.apache.beam.sdk.transforms.windowing.IntervalWindow;
import org.apache.beam.sdk.transforms.windowing.Window;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.PCollectionView;
import org.joda.time.Duration;
import org.joda.time.Instant;

/** A stream without an end. What comes out is written to files, where it can be checked. */
public final class Endless {
  private Endless() {}

  private static final Duration WINDOW = Duration.standardSeconds(20);

  /** What can be asked for. The runner reads the last ones. */
  public interface Options extends PipelineOptions {
    String getFolder();

    void setFolder(String folder);

    @Default.Long(60)
    long getDeadly();

    void setDeadly(long deadly);

    @Default.Long(2000)
    long getBounded();

    void setBounded(long bounded);

    String getSparkMasterUrl();

    void setSparkMasterUrl(String master);

    String getCheckpointDir();

    void setCheckpointDir(String folder);

    @Default.Integer(1000)
    int getCheckpointMs();

    void setCheckpointMs(int milliseconds);

    @Default.Integer(2)
    int getSlots();

    void setSlots(int slots);
  }

  /** Writes a line down, in a file of this process. */
  static synchronized void note(String folder, String kind, String line) {
    Path file = Path.of(folder, kind + "-" + ProcessHandle.current().pid());
    try {
      Files.writeString(file, line + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  /** 0, 1, 2, ... for ever, ten at a time, one a second of event time. */
  @DoFn.UnboundedPerElement
  static class Numbers extends DoFn<String, KV<String, Long>> {
    private final Counter read = Metrics.counter(Endless.class, "read");
    private final String folder;

    Numbers(String folder) {
      this.folder = folder;
    }

    @ProcessElement
    public ProcessContinuation process(
        @Element String source,
        RestrictionTracker<OffsetRange, Long> tracker,
        ManualWatermarkEstimator<Instant> watermark,
        OutputReceiver<KV<String, Long>> numbers) {
      long number = tracker.currentRestriction().getFrom();
      while (tracker.tryClaim(number)) {
        note(folder, "read", source + " " + number);
        numbers.outputWithTimestamp(KV.of(source, number), Instant.ofEpochSecond(number));
        read.inc();
        number++;
        watermark.setWatermark(Instant.ofEpochSecond(number));
        if (number % 10 == 0) {
          return ProcessContinuation.resume().withResumeDelay(Duration.millis(50));
        }
      }
      return ProcessContinuation.stop();
    }

    @GetInitialRestriction
    public OffsetRange range() {
      return new OffsetRange(0, Long.MAX_VALUE);
    }

    @TruncateRestriction
    public RestrictionTracker.TruncateResult<OffsetRange> truncate(
        @Restriction OffsetRange range) {
      // To the end of the hundred.
      long end = (range.getFrom() / 100 + 1) * 100;
      return RestrictionTracker.TruncateResult.of(new OffsetRange(range.getFrom(), end));
    }

    @GetInitialWatermarkEstimatorState
    public Instant begin() {
      return BoundedWindow.TIMESTAMP_MIN_VALUE;
    }

    @NewWatermarkEstimator
    public WatermarkEstimators.Manual estimator(@WatermarkEstimatorState Instant time) {
      return new WatermarkEstimators.Manual(time);
    }
  }

  /** The numbers of a range, some time apart; the range can be split. */
  static class Range extends DoFn<Long, KV<String, Long>> {
    @ProcessElement
    public void process(
        RestrictionTracker<OffsetRange, Long> tracker, OutputReceiver<KV<String, Long>> numbers)
        throws InterruptedException {
      for (long next = tracker.currentRestriction().getFrom(); tracker.tryClaim(next); next++) {
        Thread.sleep(2);
        numbers.output(KV.of("range", next));
      }
    }

    @GetInitialRestriction
    public OffsetRange range(@Element Long end) {
      return new OffsetRange(0, end);
    }
  }

  /** Ends its process at a number, once. */
  static class Dies extends DoFn<KV<String, Long>, KV<String, Long>> {
    private final String folder;
    private final long deadly;

    Dies(String folder, long deadly) {
      this.folder = folder;
      this.deadly = deadly;
    }

    @ProcessElement
    public void process(
        @Element KV<String, Long> pair, OutputReceiver<KV<String, Long>> pairs) throws IOException {
      Path mark = Path.of(folder, "killed");
      if (pair.equals(KV.of("a", deadly)) && !Files.exists(mark)) {
        Files.writeString(mark, "");
        Runtime.getRuntime().halt(9);
      }
      pairs.output(pair);
    }
  }

  /** Tells of each key at the end of time how many numbers it has had, and more. */
  static class Remember extends DoFn<KV<String, Long>, String> {
    private static final Instant END = Instant.ofEpochSecond(1_000_000_000L);

    @StateId("name")
    private final StateSpec<ValueState<String>> name = StateSpecs.value(StringUtf8Coder.of());

    @StateId("count")
    private final StateSpec<ValueState<Long>> count = StateSpecs.value(VarLongCoder.of());

    @StateId("sum")
    private final StateSpec<CombiningState<Long, long[], Long>> sum =
        StateSpecs.combining(Sum.ofLongs());

    @StateId("digits")
    private final StateSpec<MapState<Long, Long>> digits =
        StateSpecs.map(VarLongCoder.of(), VarLongCoder.of());

    @StateId("hundreds")
    private final StateSpec<BagState<Long>> hundreds = StateSpecs.bag(VarLongCoder.of());

    @TimerId("end")
    private final TimerSpec end = TimerSpecs.timer(TimeDomain.EVENT_TIME);

    @TimerFamily("soon")
    private final TimerSpec soon = TimerSpecs.timerMap(TimeDomain.PROCESSING_TIME);

    private final String folder;

    Remember(String folder) {
      this.folder = folder;
    }

    @ProcessElement
    public void process(
        @Element KV<String, Long> pair,
        @StateId("name") ValueState<String> name,
        @StateId("count") ValueState<Long> count,
        @StateId("sum") CombiningState<Long, long[], Long> sum,
        @StateId("digits") MapState<Long, Long> digits,
        @TimerId("end") Timer end,
        @TimerFamily("soon") TimerMap soon) {
      long number = pair.getValue();
      Long before = count.read();
      name.write(pair.getKey());
      count.write((before == null ? 0 : before) + 1);
      sum.add(number);
      Long same = digits.get(number % 10).read();
      digits.put(number % 10, (same == null ? 0 : same) + 1);
      end.set(END);
      if (number % 100 == 0) {
        soon.get(Long.toString(number)).offset(Duration.millis(300)).setRelative();
      }
    }

    @OnTimerFamily("soon")
    public void soon(
        @TimerId String tag,
        @StateId("name") ValueState<String> name,
        @StateId("hundreds") BagState<Long> hundreds) {
      if (tag.equals("told")) {
        note(folder, "hundreds", name.read() + words(hundreds.read()));
      } else {
        hundreds.add(Long.parseLong(tag));
      }
    }

    @OnTimer("end")
    public void end(
        @StateId("name") ValueState<String> name,
        @StateId("count") ValueState<Long> count,
        @StateId("sum") CombiningState<Long, long[], Long> sum,
        @StateId("digits") MapState<Long, Long> digits,
        @TimerFamily("soon") TimerMap soon) {
      StringBuilder line = new StringBuilder(name.read());
      line.append(" ").append(count.read()).append(" ").append(sum.read());
      for (long digit = 0; digit < 10; digit++) {
        line.append(" ").append(digits.get(digit).read());
      }
      note(folder, "sum", line.toString());
      // Time of the clock comes after that of events in a drain.
      soon.get("told").offset(Duration.millis(300)).setRelative();
    }
  }

  /** Keeps the numbers of a window, and writes them down when it is over. */
  static class Keep extends DoFn<KV<String, Long>, String> {
    @StateId("name")
    private final StateSpec<ValueState<String>> name = StateSpecs.value(StringUtf8Coder.of());

    @StateId("numbers")
    private final StateSpec<BagState<Long>> numbers = StateSpecs.bag(VarLongCoder.of());

    private final String folder;

    Keep(String folder) {
      this.folder = folder;
    }

    @ProcessElement
    public void process(
        @Element KV<String, Long> pair,
        @StateId("name") ValueState<String> name,
        @StateId("numbers") BagState<Long> numbers) {
      name.write(pair.getKey());
      numbers.add(pair.getValue());
    }

    @OnWindowExpiration
    public void over(
        BoundedWindow window,
        @StateId("name") ValueState<String> name,
        @StateId("numbers") BagState<Long> numbers) {
      note(folder, "kept", line(name.read(), window, numbers.read()));
    }
  }

  /** Writes the group of a window down, with the sum that a side input has of it. */
  static class Compare extends DoFn<KV<String, Iterable<Long>>, String> {
    private final String folder;
    private final PCollectionView<Map<String, Long>> sums;

    Compare(String folder, PCollectionView<Map<String, Long>> sums) {
      this.folder = folder;
      this.sums = sums;
    }

    @ProcessElement
    public void process(ProcessContext context, BoundedWindow window) {
      String key = context.element().getKey();
      Long sum = context.sideInput(sums).get(key);
      note(folder, "window", line(key, window, context.element().getValue()));
      note(folder, "aside", key + " " + start(window) + " " + sum);
    }
  }

  private static long start(BoundedWindow window) {
    return ((IntervalWindow) window).start().getMillis() / 1000;
  }

  private static String line(String key, BoundedWindow window, Iterable<Long> numbers) {
    return key + " " + start(window) + words(numbers);
  }

  private static String words(Iterable<Long> numbers) {
    List<Long> sorted = new ArrayList<>();
    numbers.forEach(sorted::add);
    Collections.sort(sorted);
    StringBuilder words = new StringBuilder();
    sorted.forEach(number -> words.append(" ").append(number));
    return words.toString();
  }

  public static void main(String[] arguments) {
    PipelineOptionsFactory.register(Options.class);
    Options options = PipelineOptionsFactory.fromArgs(arguments).withValidation().as(Options.class);
    String folder = options.getFolder();
    Pipeline pipeline = Pipeline.create(options);
    KvCoder<String, Long> coder = KvCoder.of(StringUtf8Coder.of(), VarLongCoder.of());

    PCollection<KV<String, Long>> pairs =
        pipeline
            .apply("Sources", Create.of("a", "b", "c"))
            .apply("Numbers", ParDo.of(new Numbers(folder)))
            .setCoder(coder)
            .apply("Dies", ParDo.of(new Dies(folder, options.getDeadly())));
    pairs.apply("Remember", ParDo.of(new Remember(folder)));
    pipeline
        .apply("End", Create.of(options.getBounded()))
        .apply("Range", ParDo.of(new Range()))
        .setCoder(coder)
        .apply("RememberRange", ParDo.of(new Remember(folder)));

    PCollection<KV<String, Long>> windows =
        pairs.apply("Windows", Window.into(FixedWindows.of(WINDOW)));
    windows.apply("Keep", ParDo.of(new Keep(folder)));
    PCollectionView<Map<String, Long>> sums =
        windows.apply("Sum", Sum.longsPerKey()).apply("View", View.asMap());
    windows
        .apply("Group", GroupByKey.create())
        .apply("Compare", ParDo.of(new Compare(folder, sums)).withSideInputs(sums));

    System.out.println("state " + pipeline.run().waitUntilFinish());
  }
}
