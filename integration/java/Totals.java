import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.coders.VarLongCoder;
import org.apache.beam.sdk.state.StateSpec;
import org.apache.beam.sdk.state.StateSpecs;
import org.apache.beam.sdk.state.TimeDomain;
import org.apache.beam.sdk.state.Timer;
import org.apache.beam.sdk.state.TimerSpec;
import org.apache.beam.sdk.state.TimerSpecs;
import org.apache.beam.sdk.state.ValueState;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.PTransform;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.Sum;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PCollection;

/** The total of each key, made by state and a timer; programs in other SDKs ask for it. */
public final class Totals
    extends PTransform<PCollection<KV<String, Long>>, PCollection<KV<String, Long>>> {
  private final long times;

  private Totals(long times) {
    this.times = times;
  }

  /** Totals of numbers that are multiplied. */
  public static Totals of(Long times) {
    return new Totals(times);
  }

  @Override
  public PCollection<KV<String, Long>> expand(PCollection<KV<String, Long>> pairs) {
    return pairs
        .apply("Remember", ParDo.of(new Remember(times)))
        .setCoder(KvCoder.of(StringUtf8Coder.of(), VarLongCoder.of()))
        .apply("Sum", Sum.longsPerKey());
  }

  private static final class Remember extends DoFn<KV<String, Long>, KV<String, Long>> {
    private final long times;

    @StateId("sum")
    private final StateSpec<ValueState<Long>> sum = StateSpecs.value(VarLongCoder.of());

    @StateId("name")
    private final StateSpec<ValueState<String>> name = StateSpecs.value(StringUtf8Coder.of());

    @TimerId("end")
    private final TimerSpec end = TimerSpecs.timer(TimeDomain.EVENT_TIME);

    Remember(long times) {
      this.times = times;
    }

    @ProcessElement
    public void process(
        @Element KV<String, Long> pair,
        @StateId("sum") ValueState<Long> sum,
        @StateId("name") ValueState<String> name,
        @TimerId("end") Timer end,
        BoundedWindow window) {
      Long before = sum.read();
      sum.write((before == null ? 0 : before) + times * pair.getValue());
      name.write(pair.getKey());
      end.set(window.maxTimestamp());
    }

    @OnTimer("end")
    public void fire(
        @StateId("sum") ValueState<Long> sum,
        @StateId("name") ValueState<String> name,
        OutputReceiver<KV<String, Long>> totals) {
      totals.output(KV.of(name.read(), sum.read()));
      sum.clear();
    }
  }
}
