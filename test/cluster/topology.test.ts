import t, { type Test } from 'tap'
import type { AgentId, Call } from '../../src/call/call.ts'
import { KnownMessages } from '../../src/call/known-messages.ts'
import { KasError } from '../../src/lib/errors.ts'
import { encodeConnectRequest } from '../../src/proto/reverse-tunnel.ts'
import { type AgentsDirectory, callThrough, oneAgent } from '../support/agents-server.ts'
import { eventually } from '../support/eventually.ts'
import { FakeAgent } from '../support/fake-agent.ts'
import { knows, startWholeReplicas, type WholeReplica } from './whole-replica.ts'

/**
 * Three clusters with an agent each, four pods, three replicas. One agent has pods at two replicas, and one replica
 * holds none. The pods of one agent are of two versions, which serve different methods.
 */

const list = '/cluster.Objects/List'
const sync = '/cluster.Deployments/Sync'
const scan = '/cluster.Images/Scan'

interface PodPlan {
  readonly agentId: AgentId
  readonly name: string
  readonly methods: readonly string[]
}

const [first, second, third] = [1n, 2n, 3n] as [AgentId, AgentId, AgentId]
const oldPod: PodPlan = { agentId: first, name: 'first-old', methods: [list, sync] }
const newPod: PodPlan = { agentId: first, name: 'first-new', methods: [list, scan] }
const secondPod: PodPlan = { agentId: second, name: 'second', methods: [list, sync] }
const thirdPod: PodPlan = { agentId: third, name: 'third', methods: [list, sync] }
const all = [oldPod, newPod, secondPod, thirdPod]

const tokenOf = (agentId: AgentId) => `token-${agentId}`
/** tunnels of each pod: fewer than the calls that come at once */
const tunnelsPerPod = 2
/** calls of each kind at each replica */
const callsOfAKind = 10

const threeAgents: AgentsDirectory = {
  ...oneAgent(),
  async agentByToken(token) {
    const id = [first, second, third].find((agentId) => token === tokenOf(agentId))
    if (id === undefined) throw new KasError({ code: 'UNAUTHENTICATED' })
    return { id, name: `agent-${id}`, project: { id: 1n, path: 'platform/clusters' } }
  },
}

/** A pod that answers with its name and each message, until it is closed. */
class Pod {
  readonly plan: PodPlan
  /** `agent method` of each call that came */
  readonly served: string[] = []
  readonly #agent: FakeAgent

  private constructor(plan: PodPlan, agent: FakeAgent) {
    this.plan = plan
    this.#agent = agent
  }

  /** Resolves once the other replicas know that `at` holds it. */
  static async connect(t: Test, plan: PodPlan, at: WholeReplica, replicas: readonly WholeReplica[]): Promise<Pod> {
    const agent = await FakeAgent.dial(at.agentsPort, tokenOf(plan.agentId))
    t.teardown(() => agent.close())
    const pod = new Pod(plan, agent)
    for (let i = 0; i < tunnelsPerPod; i++) void pod.#serve()
    for (const replica of replicas) if (replica !== at) await knows(replica, at, plan.agentId)
    return pod
  }

  close(): void {
    this.#agent.close()
  }

  async #serve(): Promise<void> {
    while (!this.#agent.session.draining) await this.#serveOne()
  }

  async #serveOne(): Promise<void> {
    const tunnel = this.#agent.open([...this.plan.methods])
    for (let message = await tunnel.next(); message; message = await tunnel.next()) {
      if (message.kind === 'requestInfo') {
        this.served.push(message.methodName)
        tunnel.send(encodeConnectRequest.header({ pod: [this.plan.name] }))
      } else if (message.kind === 'message') tunnel.message(message.data)
      else {
        tunnel.send(encodeConnectRequest.trailer({}))
        tunnel.stream.end()
      }
    }
  }
}

interface Asked {
  readonly replica: WholeReplica
  readonly agentId: AgentId
  readonly method: string
}

/** @returns the pod that answered, after a check that the answer is of this call */
async function ask({ replica, agentId, method }: Asked, { text, safe }: { text: string; safe: boolean }) {
  const safety: Partial<Call> = safe ? { safety: 'safe', messages: new KnownMessages([Buffer.from(text)]) } : {}
  const { messages, metadata, error } = await callThrough(replica.forward, [text], { agentId, method, ...safety })
  if (error) throw error
  return messages.join() === text ? metadata?.pod?.join() : `${messages.join()} in the place of ${text}`
}

/** Makes many calls of each method for each agent at each replica, all at once. @returns the pods that answered */
async function askAll(replicas: readonly WholeReplica[], pods: readonly PodPlan[]) {
  const kinds = new Map(pods.flatMap(({ agentId, methods }) => methods.map((m) => [`${agentId} ${m}`, agentId])))
  const asked = replicas.flatMap((replica) =>
    Array.from(kinds, ([kind, agentId]) => ({ replica, agentId, method: kind.split(' ')[1] ?? '' })),
  )
  return Promise.all(
    asked.map(async (one) => {
      const texts = Array.from({ length: callsOfAKind }, (_, i) => `${one.replica.name} ${one.method} ${i}`)
      const answered = await Promise.all(texts.map((text, i) => ask(one, { text, safe: i % 2 === 0 })))
      return { ...one, answered: new Set(answered) }
    }),
  )
}

function reachedWhoCan(t: Test, answers: Awaited<ReturnType<typeof askAll>>, pods: readonly PodPlan[]): void {
  for (const { replica, agentId, method, answered } of answers) {
    const able = pods.filter((pod) => pod.agentId === agentId && pod.methods.includes(method)).map(({ name }) => name)
    const strangers = [...answered].filter((name) => !able.includes(name ?? ''))
    t.same(strangers, [], `${method} of agent ${agentId} through ${replica.name}: by ${[...answered].join(', ')}`)
  }
}

/** Resolves once the replica does not hold the first agent: a call on its way to a pod that ends would fail. */
const goneFrom = ({ tunnels }: WholeReplica) =>
  eventually(() => {
    if (tunnels.holds(first)) throw new Error('it still has a tunnel')
  })

t.test('each call reaches a pod of its agent that can serve it', async (t) => {
  const replicas = await startWholeReplicas(t, 3, { directory: threeAgents })
  const [kas0, kas1, kas2] = replicas as [WholeReplica, WholeReplica, WholeReplica]
  const connect = (plan: PodPlan, at: WholeReplica) => Pod.connect(t, plan, at, replicas)
  const old = await connect(oldPod, kas0)
  const fresh = await connect(newPod, kas1)
  const others = [await connect(secondPod, kas0), await connect(thirdPod, kas1)]
  t.notOk(
    [first, second, third].some((agentId) => kas2.tunnels.holds(agentId)),
    'one replica holds none',
  )

  await t.test('while all are there', async (t) => {
    reachedWhoCan(t, await askAll(replicas, all), all)
    for (const pod of [old, fresh, ...others]) {
      t.ok(pod.served.length >= callsOfAKind, `${pod.plan.name} has served ${pod.served.length} calls`)
      t.same(
        pod.served.filter((method) => !pod.plan.methods.includes(method)),
        [],
        `${pod.plan.name} was asked only for what it serves`,
      )
    }
  })

  await t.test('one pod goes: what it alone served waits for another, the rest goes on', async (t) => {
    fresh.close()
    await goneFrom(kas1)
    const waiting = replicas.map((replica) =>
      ask({ replica, agentId: first, method: scan }, { text: replica.name, safe: false }),
    )
    const left = [oldPod, secondPod, thirdPod]
    reachedWhoCan(t, await askAll(replicas, left), left)
    const again = await connect(newPod, kas2)
    t.same(await Promise.all(waiting), ['first-new', 'first-new', 'first-new'], 'once it is at another replica')
    t.ok(again.served.every((method) => newPod.methods.includes(method)))
    reachedWhoCan(t, await askAll(replicas, all), all)
  })

  await t.test('what no pod serves reaches none', async (t) => {
    const before = [old, ...others].map(({ served }) => served.length)
    const given = new AbortController()
    const late = new KasError({ code: 'DEADLINE_EXCEEDED' })
    const calls = replicas.map(({ forward }) =>
      callThrough(forward, ['x'], { agentId: second, method: scan, signal: given.signal }),
    )
    reachedWhoCan(t, await askAll(replicas, [secondPod]), [secondPod]) // meanwhile
    given.abort(late)
    const ended = await Promise.allSettled(calls)
    t.match(ended, Array(replicas.length).fill({ status: 'rejected', reason: { code: 'DEADLINE_EXCEEDED' } }))
    t.equal(old.served.length, before[0])
    t.notOk(others.some(({ served }) => served.includes(scan)))
  })
})
