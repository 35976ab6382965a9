import t from 'tap'
import { discoveryFromEnvironment, discoverySchema } from '../../../../src/kas/config/discovery.ts'

const problemsOf = (value: unknown) =>
  (discoverySchema.safeParse(value).error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`)

t.test('the file', async (t) => {
  t.strictSame(discoverySchema.parse(undefined), { static: [] })
  const whole = {
    kubernetes: { service: ['kas', 'kas-new'], namespace: 'gitlab' },
    dns: 'kas.gitlab.svc:9000',
    static: ['10.0.0.7:8156', '[fd00::1]:8156', 'kas-1.internal:8156'],
  }
  t.strictSame(discoverySchema.parse(whole), whole)
  t.strictSame(discoverySchema.parse({ kubernetes: { service: 'kas' } }).kubernetes, { service: 'kas' })

  const wrong: [value: unknown, problem: RegExp][] = [
    [{ kubernetes: {} }, /^kubernetes\.service: the name of a Service, or a list/],
    [{ kubernetes: { service: 'kas.gitlab' } }, /^kubernetes\.service: the name of a Service/],
    [{ kubernetes: { service: [] } }, /^kubernetes\.service: the name of a Service/],
    [{ kubernetes: { service: Array(9).fill('a') } }, /at most 8/],
    [{ kubernetes: { service: 'kas', namespace: '../x' } }, /^kubernetes\.namespace: the name of a namespace/],
    [{ dns: 'kas:0' }, /^dns: a host name or host:port/],
    [{ static: ['10.0.0.7:8156', '10.0.0.7'] }, /^static\.1: host:port such as "10\.0\.0\.7:8156"/],
    [{ static: Array(101).fill('a:1') }, /^static: at most 100 members/],
  ]
  for (const [value, problem] of wrong) {
    const problems = problemsOf(value)
    t.equal(problems.length, 1, problems.join())
    t.match(problems[0], problem)
  }
})

t.test('the environment', async (t) => {
  const read = (env: Record<string, string>) => {
    const problems: string[] = []
    return { settings: discoveryFromEnvironment(env, problems), problems }
  }
  t.strictSame(read({ POD_NAMESPACE: 'gitlab', KAS_CLUSTER_DNS: ' ' }), { settings: undefined, problems: [] })
  t.strictSame(read({ KAS_CLUSTER_SERVICE: 'kas', POD_NAMESPACE: 'gitlab' }).settings, {
    kubernetes: { service: 'kas', namespace: 'gitlab' },
  })
  t.strictSame(read({ KAS_CLUSTER_SERVICE: 'other/kas, kas-new', POD_NAMESPACE: 'gitlab' }).settings, {
    kubernetes: { service: ['kas', 'kas-new'], namespace: 'other' },
  })
  const wrong: Record<string, string>[] = [
    { KAS_CLUSTER_SERVICE: 'a/b/c' },
    { KAS_CLUSTER_SERVICE: '/kas' },
    { KAS_CLUSTER_SERVICE: 'Kas' },
    { KAS_CLUSTER_SERVICE: ',' },
    { KAS_CLUSTER_DNS: 'kas gitlab' },
    { KAS_CLUSTER_STATIC: '10.0.0.7:8156,10.0.0.8' },
    { KAS_CLUSTER_STATIC: Array(101).fill('a:1').join() },
  ]
  for (const env of wrong) {
    const { problems } = read(env)
    t.equal(problems.length, 1, problems.join())
    t.match(problems[0], new RegExp(`^${Object.keys(env)[0]}: found "`))
  }
})
