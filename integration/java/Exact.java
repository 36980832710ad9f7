import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.logging.Logger;
import org.apache.beam.runners.core.metrics.MonitoringInfoConstants;
import org.apache.beam.runners.core.metrics.MonitoringInfoMetricName;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.coders.VarLongCoder;
import org.apache.beam.sdk.io.range.OffsetRange;
import org.apache.beam.sdk.metrics.Counter;
import org.apache.beam.sdk.metrics.MetricNameFilter;
import org.apache.beam.sdk.metrics.MetricQueryResults;
import org.apache.beam.sdk.metrics.MetricResult;
import org.apache.beam.sdk.metrics.Metrics;
import org.apache.beam.sdk.metrics.MetricsEnvironment;
import org.apache.beam.sdk.metrics.MetricsFilter;
import org.apache.beam.sdk.options.Default;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.state.BagState;
import org.apache.beam.sdk.state.StateSpec;
import org.apache.beam.sdk.state.StateSpecs;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.state.Timer;
import org.apache.beam.sdk.state.TimerSpec;
import org.apache.beam.sdk.state.TimerSpecs;
import org.apache.beam.sdk.state.ValueState;
import org.apache.beam.sdk.testing.PAssert;
import org.apache.beam.sdk.transforms.Count;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.Sum;
import org.apache.beam.sdk.transforms.View;
import org.apache.beam.sdk.transforms.splittabledofn.RestrictionTracker;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.PCollectionView;

/** Groups, combines, side inputs, state, timers and a splittable DoFn; each checked in the pipeline. */
public final class Exact {
  private static final Logger LOG = Logger.getLogger("exact");

  private Exact() {}

  /** What can be asked for. */
  public interface Options extends PipelineOptions {
    @Default.Long(10_000)
    long getNumbers();

    void setNumbers(long numbers);

    @Default.Integer(10)
    int getKeys();

    void setKeys(int keys);

    /** A file: a harness that does not find it writes it, and is killed amid the numbers. */
    @Default.String("")
    String getMark();

    void setMark(String path);
  }

  /** The SDK tells of its process what services were asked for, and none of the names of users. */
  private static final MonitoringInfoMetricName READ_BY_PROCESS =
      MonitoringInfoMetricName.named(
          MonitoringInfoConstants.Urns.API_REQUEST_COUNT,
          new HashMap<>(
              Map.of(
                  MonitoringInfoConstants.Labels.SERVICE, "Numbers",
                  MonitoringInfoConstants.Labels.METHOD, "read",
                  MonitoringInfoConstants.Labels.RESOURCE, "",
                  MonitoringInfoConstants.Labels.PTRANSFORM, "",
                  MonitoringInfoConstants.Labels.STATUS, "ok")));

  /** The numbers of a range; the range can be split. */
  static class Read extends DoFn<Long, Long> {
    private final Counter read = Metrics.counter(Exact.class, "read");

    @ProcessElement
    public void process(
        RestrictionTracker<OffsetRange, Long> tracker, OutputReceiver<Long> numbers) {
      for (long next = tracker.currentRestriction().getFrom(); tracker.tryClaim(next); next++) {
        numbers.output(next);
        read.inc();
        MetricsEnvironment.getProcessWideContainer().getCounter(READ_BY_PROCESS).inc();
      }
    }

    @GetInitialRestriction
    public OffsetRange range(@Element Long end) {
      return new OffsetRange(0, end);
    }

    @SplitRestriction
    public void split(@Restriction OffsetRange range, OutputReceiver<OffsetRange> parts) {
      long middle = (range.getFrom() + range.getTo()) / 2;
      parts.output(new OffsetRange(range.getFrom(), middle));
      parts.output(new OffsetRange(middle, range.getTo()));
    }
  }

  /** Gives each number a key. At one of them, its process is killed once. */
  static class ByKey extends DoFn<Long, KV<String, Long>> {
    private final int keys;
    private final long deadly;
    private final String mark;

    ByKey(int keys, long deadly, String mark) {
      this.keys = keys;
      this.deadly = deadly;
      this.mark = mark;
    }

    @ProcessElement
    public void process(@Element Long number, OutputReceiver<KV<String, Long>> pairs)
        throws IOException, InterruptedException {
      if (number == deadly && !mark.isEmpty() && !Files.exists(Path.of(mark))) {
        String pid = String.valueOf(ProcessHandle.current().pid());
        Files.writeString(Path.of(mark), pid);
        new ProcessBuilder("kill", "-KILL", pid).start().waitFor();
        Thread.sleep(60_000);
      }
      pairs.output(KV.of("key " + number % keys, number));
    }
  }

  /** Keeps the numbers of a key, and tells their count and sum when the window ends. */
  static class Remember extends DoFn<KV<String, Long>, KV<String, String>> {
    @StateId("sum")
    private final StateSpec<ValueState<Long>> sum = StateSpecs.value(VarLongCoder.of());

    @StateId("all")
    private final StateSpec<BagState<Long>> all = StateSpecs.bag(VarLongCoder.of());

    @StateId("name")
    private final StateSpec<ValueState<String>> name = StateSpecs.value(StringUtf8Coder.of());

    @TimerId("end")
    private final TimerSpec end = TimerSpecs.timer(TimeDomain.EVENT_TIME);

    @ProcessElement
    public void process(
        @Element KV<String, Long> pair,
        @StateId("sum") ValueState<Long> sum,
        @StateId("all") BagState<Long> all,
        @StateId("name") ValueState<String> name,
        @TimerId("end") Timer end,
        org.apache.beam.sdk.transforms.windowing.BoundedWindow window) {
      Long before = sum.read();
      sum.write((before == null ? 0 : before) + pair.getValue());
      all.add(pair.getValue());
      name.write(pair.getKey());
      end.set(window.maxTimestamp());
    }

    @OnTimer("end")
    public void fire(
        @StateId("sum") ValueState<Long> sum,
        @StateId("all") BagState<Long> all,
        @StateId("name") ValueState<String> name,
        OutputReceiver<KV<String, String>> told) {
      long count = 0;
      long again = 0;
      for (long number : all.read()) {
        count++;
        again += number;
      }
      Long kept = sum.read();
      boolean agrees = kept != null && kept == again;
      told.output(KV.of(name.read(), count + " numbers, sum " + again + (agrees ? "" : ", not " + kept)));
      sum.clear();
      all.clear();
    }
  }

  public static void main(String[] arguments) {
    PipelineOptionsFactory.register(Options.class);
    Options options = PipelineOptionsFactory.fromArgs(arguments).withValidation().as(Options.class);
    long numbers = options.getNumbers();
    int keys = options.getKeys();
    Pipeline pipeline = Pipeline.create(options);

    PCollection<Long> read =
        pipeline.apply("Ends", Create.of(numbers)).apply("Read", ParDo.of(new Read()));
    PCollection<KV<String, Long>> pairs =
        read.apply("ByKey", ParDo.of(new ByKey(keys, numbers / 2, options.getMark())))
            .setCoder(KvCoder.of(StringUtf8Coder.of(), VarLongCoder.of()));

    List<KV<String, Long>> sums = new ArrayList<>();
    List<KV<String, Long>> counts = new ArrayList<>();
    List<KV<String, String>> remembered = new ArrayList<>();
    for (int key = 0; key < keys; key++) {
      long count = 0;
      long sum = 0;
      for (long number = key; number < numbers; number += keys) {
        count++;
        sum += number;
      }
      sums.add(KV.of("key " + key, sum));
      counts.add(KV.of("key " + key, count));
      remembered.add(KV.of("key " + key, count + " numbers, sum " + sum));
    }

    PCollection<KV<String, Long>> combined = pairs.apply("Sum", Sum.longsPerKey());
    PAssert.that("sums", combined).containsInAnyOrder(sums);

    PCollection<KV<String, Long>> grouped =
        pairs
            .apply("Group", GroupByKey.create())
            .apply(
                "Size",
                ParDo.of(
                    new DoFn<KV<String, Iterable<Long>>, KV<String, Long>>() {
                      @ProcessElement
                      public void process(ProcessContext context) {
                        long count = 0;
                        for (Long unused : context.element().getValue()) {
                          count++;
                        }
                        LOG.warning("There is " + context.element().getKey());
                        context.output(KV.of(context.element().getKey(), count));
                      }
                    }));
    PAssert.that("groups", grouped).containsInAnyOrder(counts);

    PCollectionView<Map<String, Long>> view = combined.apply("View", View.asMap());
    PCollection<Long> aside =
        grouped.apply(
            "Compare",
            ParDo.of(
                    new DoFn<KV<String, Long>, Long>() {
                      @ProcessElement
                      public void process(ProcessContext context) {
                        Map<String, Long> sums = context.sideInput(view);
                        context.output(sums.get(context.element().getKey()));
                      }
                    })
                .withSideInputs(view));
    List<Long> expected = new ArrayList<>();
    sums.forEach(pair -> expected.add(pair.getValue()));
    PAssert.that("side inputs", aside).containsInAnyOrder(expected);

    PAssert.that("state", pairs.apply("Remember", ParDo.of(new Remember())))
        .containsInAnyOrder(remembered);
    PAssert.thatSingleton("numbers", read.apply(Count.globally())).isEqualTo(numbers);

    PipelineResult result = pipeline.run();
    PipelineResult.State state = result.waitUntilFinish();
    MetricQueryResults found =
        result
            .metrics()
            .queryMetrics(
                MetricsFilter.builder()
                    .addNameFilter(MetricNameFilter.named(Exact.class, "read"))
                    .build());
    for (MetricResult<Long> counter : found.getCounters()) {
      System.out.println("read " + counter.getAttempted());
    }
    System.out.println("state " + state);
    System.exit(state == PipelineResult.State.DONE ? 0 : 1);
  }
}
