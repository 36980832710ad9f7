import io.github.classgraph.ClassGraph;
import io.github.classgraph.ScanResult;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import org.apache.beam.sdk.testing.ValidatesRunner;
import org.junit.experimental.categories.Categories;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.Request;
import org.junit.runner.manipulation.Filter;
import org.junit.runner.manipulation.NoTestsRemainException;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/**
 * Runs the tests of Beam's Java SDK that validate a runner, and prints a line for each.
 *
 * <p>Options of their pipelines are the property {@code beamTestPipelineOptions}. Tests that need an
 * expansion service are left out, as are those of how transforms are written down.
 */
public final class Suite {
  private Suite() {}

  /** The first argument is a regular expression: part of the names of the tests to run. */
  public static void main(String[] arguments) {
    Pattern wanted = Pattern.compile(arguments.length > 0 ? arguments[0] : "");
    List<Class<?>> classes = new ArrayList<>();
    try (ScanResult found =
        new ClassGraph()
            .acceptPackages("org.apache.beam.sdk")
            .enableMethodInfo()
            .enableAnnotationInfo()
            .ignoreMethodVisibility()
            .ignoreClassVisibility()
            .scan()) {
      for (var each : found.getClassesWithMethodAnnotation("org.junit.Test")) {
        boolean isLeftOut = each.getName().matches(".*(Xlang|TranslationTest|JsonSchema).*");
        if (!each.isAbstract() && !isLeftOut) {
          classes.add(each.loadClass());
        }
      }
    }
    Filter named =
        new Filter() {
          @Override
          public boolean shouldRun(Description test) {
            return !test.isTest() || wanted.matcher(name(test)).find();
          }

          @Override
          public String describe() {
            return wanted.toString();
          }
        };
    JUnitCore core = new JUnitCore();
    Lines lines = new Lines();
    core.addListener(lines);
    for (Class<?> each : classes) {
      Filter both = Categories.CategoryFilter.include(ValidatesRunner.class).intersect(named);
      var runner = Request.aClass(each).getRunner();
      try {
        both.apply(runner);
      } catch (NoTestsRemainException none) {
        continue;
      }
      core.run(runner);
    }
    System.out.printf(
        "%d passed, %d failed, %d skipped%n", lines.passed, lines.failed, lines.skipped);
    System.exit(lines.failed == 0 ? 0 : 1);
  }

  private static String name(Description test) {
    return test.getClassName() + "." + test.getMethodName();
  }

  private static final class Lines extends RunListener {
    int passed;
    int failed;
    int skipped;
    private boolean fails;
    private boolean skips;
    private long began;

    @Override
    public void testStarted(Description test) {
      fails = false;
      skips = false;
      began = System.nanoTime();
    }

    @Override
    public void testFailure(Failure failure) {
      fails = true;
      String text = String.valueOf(failure.getMessage()).strip();
      if (text.length() > 600) {
        text = text.substring(0, 600);
      }
      print("FAILED", failure.getDescription(), text.replace('\n', ' '));
    }

    @Override
    public void testAssumptionFailure(Failure failure) {
      skips = true;
      print("SKIPPED", failure.getDescription(), String.valueOf(failure.getMessage()));
    }

    @Override
    public void testIgnored(Description test) {
      skipped++;
      print("SKIPPED", test, "");
    }

    @Override
    public void testFinished(Description test) {
      if (fails) {
        failed++;
      } else if (skips) {
        skipped++;
      } else {
        passed++;
        print("PASSED", test, "");
      }
    }

    private void print(String what, Description test, String why) {
      long millis = (System.nanoTime() - began) / 1_000_000;
      System.out.println(what + " " + name(test) + " " + millis + " ms " + why);
    }
  }
}
