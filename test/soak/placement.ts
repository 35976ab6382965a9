import t, { type Test } from 'tap'
import { delay } from '../../src/lib/signals.ts'
import { kubernetesApiMethod } from '../../src/proto/http-over-grpc.ts'
import { CountingRelay } from '../cluster/counting-relay.ts'
import { dialFake, type Fronted, grpcAddress, webSocketAddress } from '../cluster/front-cases.ts'
import { startHaproxy, startNginx } from '../cluster/front-program.ts'
import { FrontedReplicas } from '../cluster/fronted-replicas.ts'
import { absent } from '../support/absent.ts'
import { eventually } from '../support/eventually.ts'

/** Agents come back to where their token leads once their connections have aged, and the others' never move. */

const count = 60
const ids = Array.from({ length: count }, (_, i) => 1000 + i)
const maxAgeMs = 10_000
const away = 'kas-1'
/** so that health checks of the front are answered in time, on a slow machine too */
const betweenFirstDialsMs = 30
/** an agent that lost its connection tries again; agentk waits longer */
const redialMs = 200

const fronts = { nginx: startNginx, haproxy: startHaproxy }

for (const [program, start] of Object.entries(fronts)) {
  t.test(`agents behind ${program}`, { skip: absent(program) && `needs ${program}`, timeout: 120_000 }, async (t) => {
    const replicas = await FrontedReplicas.start(t, { moreAgents: ids, maxConnectionAge: `${maxAgeMs}ms` })
    const relays = await Promise.all(
      replicas.all.map(async ({ agentsPort, opsPort }) => ({
        agents: await CountingRelay.start(t, agentsPort),
        ops: await CountingRelay.start(t, opsPort),
      })),
    )
    const all = replicas.all.map((replica, i) => {
      const { agents, ops } = relays[i] as (typeof relays)[number]
      return { ...replica, agentsPort: agents.port, opsPort: ops.port }
    })
    await returns(t, { replicas, front: await start(replicas, all) }, Object.values(relays[1] ?? {}))
  })
}

/** @param relays - all ways to the replica `away` */
async function returns(t: Test, fronted: Fronted, relays: CountingRelay[]): Promise<void> {
  const { replicas, front } = fronted
  const leave = new AbortController()
  const agents = ids.map(async (agent, i) => {
    await delay(i * betweenFirstDialsMs)
    const address = i % 2 === 0 ? webSocketAddress(front) : grpcAddress(front)
    await staysConnected(replicas, { agent, address }, leave.signal)
  })
  t.teardown(async () => {
    leave.abort()
    await Promise.all(agents)
  })
  const before = await seen(replicas, (places) => places.size === count)
  const moving = ids.filter((id) => before.get(id) === away)
  t.ok(moving.length > count / 10, `${moving.length} of ${count} are at ${away}`)
  const strays = new Set<number>()
  const watchStrays = (places: ReadonlyMap<number, string>) => {
    for (const [id, place] of places) if (place !== before.get(id) && !moving.includes(id)) strays.add(id)
  }
  const at = (places: ReadonlyMap<number, string>, there: boolean) =>
    moving.filter((id) => places.has(id) && (places.get(id) === away) === there).length
  for (const relay of relays) relay.stop()
  await seen(replicas, (places) => {
    watchStrays(places)
    return at(places, false) === moving.length
  })
  for (const relay of relays) await relay.resume()
  const after = await seen(replicas, (places) => {
    watchStrays(places)
    return places.size === count && at(places, true) >= 0.9 * moving.length
  })
  t.same([...strays], [], 'agents of the other two never moved')
  t.comment(`${at(after, true)} of ${moving.length} came back to ${away}`)
}

/** Where each agent was seen last, once that is `enough`: at any moment some are between two connections. */
async function seen(replicas: FrontedReplicas, enough: (places: ReadonlyMap<number, string>) => boolean) {
  const places = new Map<number, string>()
  return await eventually(
    async () => {
      for (const [id, place] of await replicas.places()) if (/^kas-\d$/.test(place)) places.set(id, place)
      if (!enough(places)) throw new Error(JSON.stringify([...places]))
      return places
    },
    { timeoutMs: 30_000 },
  )
}

/** An agent with one tunnel, which it opens anew whenever that has ended. */
async function staysConnected(
  replicas: FrontedReplicas,
  place: { agent: number; address: string },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const fake = await dialFake(replicas, place)
      const close = () => {
        fake.close()
        fake.socket.destroy()
      }
      signal.addEventListener('abort', close, { once: true })
      if (signal.aborted) close()
      // a session over a connection that was lost before it began never hears of that; no tunnel gets as old as this
      await Promise.race([fake.open([kubernetesApiMethod]).done, delay(maxAgeMs, signal).catch(() => undefined)])
      signal.removeEventListener('abort', close)
      close()
    } catch {
      // a front without a replica for it, as it happens while one is away
    }
    await delay(redialMs * (0.5 + Math.random()), signal).catch(() => undefined)
  }
}
