import { readFile } from 'node:fs/promises'
import t from 'tap'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { LeaseTerms, type Term } from '../support/lease-terms.ts'
import { Processes, type TestProcess } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { agentId, bearerOf } from '../support/stack-directory.ts'
import { SteadyCalls } from '../support/steady-calls.ts'

/** Two pods of one agent, of which one leads, by a Lease. Leaders are killed, frozen and thawed while calls go on. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
/** longest time without a leader */
const maxGapMs = 20_000
/** pause between two actions of a leader */
const workMs = 1_000
/** pause of each of the four callers: a call begins every 25 ms */
const pauseMs = 100

t.test('two pods of one agent', { skip, timeout: 200_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const lease = LeaseTerms.start(t, controlPlane.admin, `agent-${agentId}-lock`)
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
  const pods = new Map<string, TestProcess>()
  const start = async (pod: string) => {
    pods.set(pod, await stack.startAgentk({ pod, environment: { LOG_LEVEL: 'debug' } }))
  }
  const get = (pod: string) => pods.get(pod) as TestProcess
  /** resolves once the pod has acted `count` times */
  const works = (pod: string, count: number) => get(pod).says(new RegExp(`(Working as leader[^]*){${count}}`))
  const nextTerm = (past: number) => lease.next(past, 2 * maxGapMs)

  await start('agentk-0')
  await start('agentk-1')
  await stack.connected()
  const url = `${stack.kubernetesUrl}/api/v1/namespaces/default`
  const ca = await readFile(stack.caFile, 'utf8')
  const calls = new SteadyCalls({ url, ca, token: bearerOf('agent'), pauseMs })
  t.teardown(() => calls.stop())
  calls.start()
  const first = await nextTerm(0)
  await works(first.pod, 1)

  let second: Term | undefined
  await t.test('the leader is killed', async (t) => {
    get(first.pod).signal('SIGKILL')
    second = await nextTerm(1)
    t.not(second.pod, first.pod, 'the other one leads')
    await works(second.pod, 1)
    await start('agentk-2')
  })

  await t.test('the leader freezes, and thaws when another leads', async (t) => {
    const frozen = get(second?.pod ?? '')
    frozen.signal('SIGSTOP')
    const third = await nextTerm(2)
    t.equal(third.pod, 'agentk-2')
    await works(third.pod, 1)
    const acted = actionsOf(frozen).length
    frozen.signal('SIGCONT')
    await frozen.says(new RegExp(`"leader":"${third.pod}_.*Another pod leads`))
    await works(third.pod, 3)
    t.equal(actionsOf(frozen).length, acted, 'it does not act when it thaws')
  })

  await t.test('never two that act, none for at most 20 s', async (t) => {
    t.same(
      lease.terms.map(({ transitions }) => transitions),
      [0, 1, 2],
      'the lease has passed on twice',
    )
    for (const [index, term] of lease.terms.entries()) {
      const own = actionsOf(get(term.pod))
      const next = lease.terms[index + 1]
      t.ok(own.length > 0 && Math.min(...own) >= term.acquiredAt, `${term.pod} acts, not before the lease is its own`)
      if (!next) continue
      t.ok(Math.max(...own) < next.acquiredAt, 'and not after it has passed on')
      const gap = Math.min(...actionsOf(get(next.pod))) - Math.max(...own)
      t.comment(`from the last action of ${term.pod} to the first of ${next.pod}: ${gap} ms`)
      t.ok(gap < maxGapMs + 2 * workMs, 'nobody leads for at most 20 s')
    }
  })

  await t.test('calls go on', async (t) => {
    const results = await calls.stop()
    t.same(calls.failed.slice(0, 3), [], `${calls.failed.length} of ${results.length} calls failed`)
    t.comment(`the longest call took ${Math.round(Math.max(...results.map(({ tookMs }) => tookMs)))} ms`)
  })
})

/** Times when the pod worked as leader, by this machine's clock. */
function actionsOf({ stderr }: TestProcess): number[] {
  const lines = stderr.split('\n').filter((line) => line.includes('Working as leader'))
  return lines.map((line) => Date.parse(JSON.parse(line).time))
}
