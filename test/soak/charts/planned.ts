import { availableParallelism, loadavg } from 'node:os'
import { delay } from '../../../src/lib/signals.ts'
import { unexplained } from '../rolling/ends.ts'
import type { FailedCall } from '../rolling/paced-calls.ts'
import { RollingLoad } from '../rolling/rolling-load.ts'
import { versionBefore } from './images.ts'
import { adminOf, type ChartsStage, seconds, values, workplace } from './stage.ts'

/** time for watches and execs to begin. ms */
const openMs = 60_000
/** pause between two changes. ms */
const calmMs = 5000
/** limit for a drained node: its pods leave within their graces. s */
const drainSeconds = 150
/** the node that is drained, not that of the callers' pod */
const drainedNode = 3

/** Makes planned changes of an installation, under load: no call fails, and nothing ends before its time. */
export async function planned(stage: ChartsStage): Promise<void> {
  const { t, ground, options, leaves, tunnels } = stage
  const { namespace, pod } = workplace
  const access = await ground.access()
  const ticksBy = await adminOf(ground.cluster, namespace)
  const load = new RollingLoad({ access, ...options, namespace, pod: { namespace, pod }, ticksBy })
  await load.start(AbortSignal.timeout(openMs))
  let failed = 0
  /** lines of failed calls that pods of the older agentk have lost */
  const excused = new Set<string>()
  const cores = `${availableParallelism()} cores, a load of ${loadavg()[0]?.toFixed(1)}`
  t.comment(`${options.calls} calls a second, ${options.watches} watches, ${options.execs} execs; ${cores}`)

  /**
   * @param older - pods of the older agentk are running, which may have no standby for a minute
   * @param loses - older pods leave, and may lose a write that is on its way to them
   */
  const change = (name: string, act: () => Promise<unknown>, { older = false, loses = false } = {}) =>
    t.test(name, async (t) => {
      const from = performance.now()
      tunnels.take()
      await act()
      await tunnels.allKnown(AbortSignal.timeout(openMs))
      const took = performance.now() - from
      await delay(calmMs)
      const { times, fewest, lacking } = tunnels.take()
      t.comment(`${name}: ${seconds(took)}; tunnels at ${fewest} replicas or more, of ${times} times`)
      for (const { at, holders } of lacking) {
        t.comment(`tunnels at fewer than two ${seconds(at - from)} after it began, by ${holders.join() || 'none'}`)
      }
      if (lacking.length > 0) for (const line of await movesOfAgentk(stage, took)) t.comment(line)
      if (!older) t.equal(lacking.length, 0, 'tunnels at two replicas at all times')
      const lost = load.failedCalls.slice(failed)
      failed += lost.length
      for (const { begunAt, told } of lost) t.comment(`${seconds(begunAt - from)} after it began: ${told}`)
      const own = loses ? lost.filter(mayBeRepeated) : lost
      for (const { told } of lost) if (!own.some((call) => call.told === told)) excused.add(told)
      if (lost.length > own.length) t.comment('lost by pods of the older agentk, as they left')
      t.equal(own.length, 0, 'no call failed')
    })

  await change('helm upgrade of kas', () => ground.install('kas', ...values.now.kas), { older: true })
  const agentkAnew = () => ground.install('agentk', ...values.now.agentk)
  await change('helm upgrade of agentk', agentkAnew, { older: true, loses: true })
  await change('a node is drained', () => drain(stage))
  await change('helm rollback of agentk', () => ground.rollback('agentk', 1), { older: true })
  await change('helm rollback of kas', () => ground.rollback('kas', 1), { older: true })
  await ground.createReplicasSecret('kas-private-2')
  const next = 'privateApi.secret=kas-private-2'
  const both = () => ground.install('kas', ...values.now.kas, next, 'privateApi.previous.secret=kas-private')
  await change('the secret: both, with the upgrade of kas again', both, { older: true })
  await change('the upgrade of agentk again', agentkAnew, { older: true, loses: true })
  await change('the secret: the new one alone', () => ground.install('kas', ...values.now.kas, next))
  // no older version from here on, so all checks apply
  await change('helm rollback of kas by a step', () => ground.rollback('kas'))
  const other = ['extraEnv[0].name=LOG_LEVEL', 'extraEnv[0].value=debug']
  await change('an upgrade of agentk within this version', () => ground.install('agentk', ...other))
  await change('helm rollback of agentk by a step', () => ground.rollback('agentk'))

  await load.stop()
  for (const figure of load.figures(leaves.all)) t.comment(figure)
  const failures = load.failures(leaves.all).filter((line) => !excused.has(line))
  for (const line of failures) t.comment(line)
  t.strictSame(failures, [], 'no call fails, watches go on, execs end after the graces')
  // the older replicas send no reason
  const own = unexplained(load.execEnds, leaves.of(versionBefore), 'graceEndsAt')
  const untold = own.filter(({ inOrder }) => !inOrder)
  t.comment(`${own.length - untold.length} of ${own.length} execs that ended by pods of this version were told why`)
  t.equal(untold.length, 0, 'execs that end are told why')
}

/** Returns true if the call had not begun at a pod, or could be repeated: it must not fail. */
function mayBeRepeated({ kind, told }: FailedCall): boolean {
  return kind === 'GET' || !told.includes('Kas-Delivery: maybe')
}

/** Lines in which pods of agentk have logged the replicas of their tunnels, in the last `ms`. */
async function movesOfAgentk({ ground }: ChartsStage, ms: number): Promise<string[]> {
  const since = `--since=${Math.ceil((ms + calmMs) / 1000)}s`
  const args = ['logs', '--selector=app.kubernetes.io/name=agentk', '--prefix', '--timestamps', '--tail=-1', since]
  const text = await ground.kubectl.with({ namespace: 'agentk' }).ok(args)
  return text.split('\n').filter((line) => /replica of kas|connection to kas|kas has named/.test(line))
}

async function drain({ ground }: ChartsStage): Promise<void> {
  const node = `node-${drainedNode}`
  const args = ['drain', node, '--ignore-daemonsets', '--delete-emptydir-data', `--timeout=${drainSeconds}s`]
  const drained = await ground.kubectl.start(args)
  const { code, stderr } = await drained.ends({ timeoutMs: (drainSeconds + 10) * 1000 })
  if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${code}: ${stderr}`)
  await ground.kubectl.ok(['uncordon', node])
  for (const [namespace, what] of [
    ['kas', 'statefulset/kas'],
    ['agentk', 'deployment/agentk'],
  ] as const) {
    await ground.kubectl.with({ namespace }).ok(['rollout', 'status', what, '--timeout=25s'])
  }
}
