import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import type { ApiClient } from '../../dev/control-plane/api-client.ts'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { eventually } from '../support/eventually.ts'
import { Processes, type TestProcess } from '../support/processes.ts'
import { Stack } from '../support/stack.ts'
import { agentId, bearerOf } from '../support/stack-directory.ts'
import { SteadyCalls } from '../support/steady-calls.ts'

/** Two pods of one agent: calls go on, and one of them leads, while one falls silent, is killed, freezes and thaws. */

const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = missingAssets(assets, 'api')
const skip = missing.length > 0 && `needs ${missing.join(', ')}`
/** silence of a connection before a PING, and how long its answer may take */
const silenceMs = 2_000 + 3_000
/** for a busy machine */
const slackMs = 3_000
/** for at most this long nobody leads */
const maxGapMs = 20_000
/** between two actions of a leader */
const workMs = 1_000

t.test('two pods of one agent', { skip, timeout: 200_000 }, async (t) => {
  const processes = await Processes.start(t)
  const controlPlane = new ControlPlane({ assets, parts: 'api' })
  t.teardown(() => controlPlane.stop())
  await controlPlane.start()
  const stack = await Stack.start(processes, { agentKubeconfig: controlPlane.kubeconfig })
  const pods = new Pods(stack, controlPlane.admin)
  await pods.start('agentk-0')
  await pods.start('agentk-1')
  await stack.connected()
  const url = `${stack.kubernetesUrl}/api/v1/namespaces/default`
  const options = { url, ca: await readFile(stack.caFile, 'utf8'), token: bearerOf('agent'), pauseMs: 20 }

  await t.test('a connection that falls silent without an end', async (t) => {
    const calls = new SteadyCalls(options)
    calls.start()
    await calls.more(20)
    const frozenAt = calls.now
    pods.get('agentk-0').signal('SIGSTOP')
    await eventually(
      async () => {
        await calls.more(1)
        if (calls.now < frozenAt + 2 * silenceMs) throw new Error('not yet')
      },
      { timeoutMs: 4 * silenceMs },
    )
    pods.get('agentk-0').signal('SIGCONT')
    const results = await calls.stop()
    t.same(calls.failed.slice(0, 3), [], `${calls.failed.length} of ${results.length} calls failed`)
    const longest = Math.max(...results.map(({ tookMs }) => tookMs))
    t.comment(`the longest call took ${Math.round(longest)} ms`)
    t.ok(longest > 1_000, 'some calls met the silence')
    t.ok(longest < silenceMs + slackMs, `none took longer than ${silenceMs + slackMs} ms`)
    const later = results.filter(({ startedMs }) => startedMs > frozenAt + silenceMs + slackMs)
    t.ok(later.length > 0 && later.every(({ tookMs }) => tookMs < 1_000), 'later ones did not wait')
  })

  await t.test('a leader that is killed, and one that freezes and thaws', async (t) => {
    const calls = new SteadyCalls(options)
    calls.start()
    const first = await pods.leader()
    const since = Date.now()
    await pods.works(first, 1) // it may have been frozen until now
    pods.get(first).signal('SIGKILL')
    const second = await pods.leader(first)
    await pods.get(second).says(/Working as leader/)
    await pods.start('agentk-2')
    pods.get(second).signal('SIGSTOP')
    const third = await pods.leader(second)
    await pods.get(third).says(/Working as leader/)
    pods.get(second).signal('SIGCONT')
    await pods.get(second).says(new RegExp(`"leader":"${third}_.*Another pod leads`))
    await pods.works(third, 3)
    const results = await calls.stop()
    t.equal(third, 'agentk-2')
    t.same(calls.failed.slice(0, 3), [], `${calls.failed.length} of ${results.length} calls failed`)
    checkTurns(t, pods.turns(since), [first, second, third])
  })
})

interface Turn {
  pod: string
  /** of its first and last action, by the clock of this machine */
  from: number
  to: number
}

/** Never two that act, none for at most 20 s. */
function checkTurns(t: Test, turns: readonly Turn[], expected: readonly string[]): void {
  t.same(
    turns.map(({ pod }) => pod),
    expected,
    'each leads once, until the next one leads',
  )
  for (const [index, turn] of turns.entries()) {
    const before = turns[index - 1]
    if (!before) continue
    const gap = turn.from - before.to
    t.ok(gap < maxGapMs + workMs, `nobody led for ${gap} ms`)
  }
}

/** The pods of the agent, and what they log about who leads. */
class Pods {
  readonly #stack: Stack
  readonly #admin: ApiClient
  readonly #pods = new Map<string, TestProcess>()

  constructor(stack: Stack, admin: ApiClient) {
    this.#stack = stack
    this.#admin = admin
  }

  async start(pod: string): Promise<void> {
    this.#pods.set(pod, await this.#stack.startAgentk({ pod, environment: { LOG_LEVEL: 'debug' } }))
  }

  get(pod: string): TestProcess {
    const process = this.#pods.get(pod)
    if (!process) throw new Error(`${pod} was not started`)
    return process
  }

  /** Who has the lease, once it is another than `former`. */
  async leader(former?: string): Promise<string> {
    const leases = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
    const lease = await this.#admin.until(
      leases,
      ({ metadata, spec }) =>
        metadata.name === `agent-${agentId}-lock` && spec.holderIdentity && podOf(spec.holderIdentity) !== former,
      AbortSignal.timeout(2 * maxGapMs),
    )
    return podOf(lease.spec.holderIdentity)
  }

  /** Until it has acted `count` times more. */
  async works(pod: string, count: number): Promise<void> {
    const enough = this.#actions(pod).length + count
    await this.get(pod).says(new RegExp(`(Working as leader[^]*){${enough}}`))
  }

  /**
   * All actions in the order of time, those of one pod in a row together.
   *
   * @param since - by the clock of this machine
   */
  turns(since: number): Turn[] {
    const actions = [...this.#pods.keys()].flatMap((pod) => this.#actions(pod).map((at) => ({ pod, at })))
    const turns: Turn[] = []
    for (const { pod, at } of actions.filter(({ at }) => at >= since).sort((a, b) => a.at - b.at)) {
      const last = turns.at(-1)
      if (last?.pod === pod) last.to = at
      else turns.push({ pod, from: at, to: at })
    }
    return turns
  }

  #actions(pod: string): number[] {
    const lines = this.get(pod)
      .stderr.split('\n')
      .filter((line) => line.includes('Working as leader'))
    return lines.map((line) => Date.parse(JSON.parse(line).time))
  }
}

const podOf = (identity: string) => identity.slice(0, identity.indexOf('_'))
