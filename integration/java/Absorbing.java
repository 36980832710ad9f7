import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.apache.beam.sdk.Pipeline;
import org.apache.beam.sdk.PipelineResult;
import org.apache.beam.sdk.coders.AtomicCoder;
import org.apache.beam.sdk.coders.Coder;
import org.apache.beam.sdk.coders.KvCoder;
import org.apache.beam.sdk.coders.StringUtf8Coder;
import org.apache.beam.sdk.coders.VarLongCoder;
import org.apache.beam.sdk.options.PipelineOptions;
import org.apache.beam.sdk.options.PipelineOptionsFactory;
import org.apache.beam.sdk.testing.PAssert;
import org.apache.beam.sdk.transforms.Count;
import org.apache.beam.sdk.transforms.Create;
import org.apache.beam.sdk.transforms.DoFn;
import org.apache.beam.sdk.transforms.GroupByKey;
import org.apache.beam.sdk.transforms.ParDo;
import org.apache.beam.sdk.transforms.windowing.BoundedWindow;
import org.apache.beam.sdk.transforms.windowing.GlobalWindows;
import org.apache.beam.sdk.transforms.windowing.Window;
import org.apache.beam.sdk.transforms.windowing.WindowFn;
import org.apache.beam.sdk.transforms.windowing.WindowMappingFn;
import org.apache.beam.sdk.values.KV;
import org.apache.beam.sdk.values.PCollection;
import org.apache.beam.sdk.values.TimestampedValue;
import org.joda.time.Instant;

/** Windows of the program's own class: a long one takes in short ones that begin in it. */
public final class Absorbing {
  private Absorbing() {}

  /** A part of time, and whether it takes others in. */
  static final class Span extends BoundedWindow {
    final long start;
    final long end;
    final boolean isLong;

    Span(long start, long end, boolean isLong) {
      this.start = start;
      this.end = end;
      this.isLong = isLong;
    }

    @Override
    public Instant maxTimestamp() {
      return new Instant(end - 1);
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Span
          && ((Span) other).start == start
          && ((Span) other).end == end
          && ((Span) other).isLong == isLong;
    }

    @Override
    public int hashCode() {
      return Objects.hash(start, end, isLong);
    }
  }

  /** Has no end of its own that others could find. */
  static final class SpanCoder extends AtomicCoder<Span> {
    @Override
    public void encode(Span span, OutputStream out) throws IOException {
      VarLongCoder.of().encode(span.start, out);
      VarLongCoder.of().encode(span.end, out);
      out.write(span.isLong ? 1 : 0);
    }

    @Override
    public Span decode(InputStream in) throws IOException {
      return new Span(VarLongCoder.of().decode(in), VarLongCoder.of().decode(in), in.read() == 1);
    }

    @Override
    public void verifyDeterministic() {}
  }

  /** Values that begin with "long" have windows of 30 ms, others of 5 ms. */
  static final class Spans extends WindowFn<KV<String, String>, Span> {
    @Override
    public Collection<Span> assignWindows(AssignContext context) {
      boolean isLong = context.element().getValue().startsWith("long");
      long start = context.timestamp().getMillis();
      return List.of(new Span(start, start + (isLong ? 30 : 5), isLong));
    }

    @Override
    public void mergeWindows(MergeContext context) throws Exception {
      for (Span taking : context.windows()) {
        List<Span> inside = new ArrayList<>();
        for (Span each : context.windows()) {
          if (taking.isLong && taking.start <= each.start && each.start < taking.end) {
            inside.add(each);
          }
        }
        if (taking.isLong) {
          context.merge(inside, taking);
        }
      }
    }

    @Override
    public boolean isCompatible(WindowFn<?, ?> other) {
      return other instanceof Spans;
    }

    @Override
    public Coder<Span> windowCoder() {
      return new SpanCoder();
    }

    @Override
    public WindowMappingFn<Span> getDefaultWindowMappingFn() {
      throw new UnsupportedOperationException("no side inputs");
    }
  }

  private static TimestampedValue<KV<String, String>> at(String key, String value, long time) {
    return TimestampedValue.of(KV.of(key, value), new Instant(time));
  }

  public static void main(String[] arguments) {
    PipelineOptions options = PipelineOptionsFactory.fromArgs(arguments).create();
    Pipeline pipeline = Pipeline.create(options);
    PCollection<KV<String, String>> windowed =
        pipeline
            .apply(
                "Elements",
                Create.timestamped(
                        at("a", "long", 10),
                        at("a", "short 1", 20),
                        at("a", "short 2", 39),
                        at("a", "alone", 45),
                        at("b", "short 1", 20))
                    .withCoder(KvCoder.of(StringUtf8Coder.of(), StringUtf8Coder.of())))
            .apply("Windows", Window.into(new Spans()));
    PCollection<String> told =
        windowed
            .apply("Group", GroupByKey.create())
            .apply(
                "Tell",
                ParDo.of(
                    new DoFn<KV<String, Iterable<String>>, String>() {
                      @ProcessElement
                      public void process(ProcessContext context, BoundedWindow window) {
                        List<String> values = new ArrayList<>();
                        context.element().getValue().forEach(values::add);
                        values.sort(null);
                        Span span = (Span) window;
                        context.output(
                            context.element().getKey() + values + span.start + "-" + span.end);
                      }
                    }))
            .apply("No windows", Window.into(new GlobalWindows()));
    PAssert.that("groups", told)
        .containsInAnyOrder(
            "a[long, short 1, short 2]10-40", "a[alone]45-50", "b[short 1]20-25");
    PCollection<KV<String, Long>> counts =
        windowed
            .apply("Count", Count.perKey())
            .apply("None", Window.into(new GlobalWindows()));
    PAssert.that("counts", counts)
        .containsInAnyOrder(KV.of("a", 3L), KV.of("a", 1L), KV.of("b", 1L));
    PipelineResult.State state = pipeline.run().waitUntilFinish();
    System.out.println("state " + state);
    System.exit(state == PipelineResult.State.DONE ? 0 : 1);
  }
}
