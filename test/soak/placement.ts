import { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import { delay } from '../../src/lib/signals.ts'
import { type Fronted, grpcAddress, webSocketAddress } from '../cluster/front-cases.ts'
import { startHaproxy, startNginx } from '../cluster/front-program.ts'
import { type FrontedReplica, FrontedReplicas } from '../cluster/fronted-replicas.ts'
import { absent } from '../support/absent.ts'
import { eventually } from '../support/eventually.ts'
import type { PlacedAgentsOptions } from './placed-agents.ts'

/** Agents return to the replica of their token once their connections have aged; the other agents never move. */

interface Options {
  readonly agents: number
  /** age of connections. s */
  readonly age: number
}

const { agents: count, age }: Options = JSON.parse(process.env.KAS_SOAK_OPTIONS ?? '{"agents":200,"age":60}')
const ids = Array.from({ length: count }, (_, i) => 1000 + i)
const away = 'kas-1'
/** limit for all agents of a replica to move away, or to connect at first. ms */
const moveMs = 60_000
/** connections live up to a tenth longer than their age, and the machine is busy. ms */
const agedMs = age * 1100 + 30_000

const fronts = { nginx: startNginx, haproxy: startHaproxy }

for (const [program, start] of Object.entries(fronts)) {
  const skip = absent(program) && `needs ${program}`
  t.test(`${count} agents behind ${program}`, { skip, timeout: 2 * moveMs + agedMs + 60_000 }, async (t) => {
    const replicas = await FrontedReplicas.start(t, { moreAgents: ids, maxConnectionAge: `${age}s` })
    await returns(t, { replicas, front: await start(replicas) })
  })
}

async function returns(t: Test, fronted: Fronted): Promise<void> {
  const { replicas, front } = fronted
  const failures = await startAgents(t, fronted)
  const replica = replicas.all.find(({ name }) => name === away) as FrontedReplica
  const before = await seen(replicas, (places) => places.size === count, moveMs)
  t.notMatch(front.program.stdout, /DOWN/, 'the front took no replica for one that is away')
  const moving = ids.filter((id) => before.get(id) === away)
  t.ok(moving.length > count / 10, `${moving.length} of ${count} are at ${away}`)
  const strays = new Set<string>()
  const isStray = new Set<number>()
  const began = performance.now()
  const watchStrays = (places: ReadonlyMap<number, string>) => {
    for (const [id, place] of places) {
      const own = before.get(id)
      if (place === own || own === away || isStray.has(id)) continue
      isStray.add(id)
      strays.add(`${id} of ${own} was at ${place} after ${seconds(began)}`)
    }
  }
  const at = (places: ReadonlyMap<number, string>, there: boolean) =>
    moving.filter((id) => places.has(id) && (places.get(id) === away) === there).length
  await replica.stop()
  const gone = (places: ReadonlyMap<number, string>) => {
    watchStrays(places)
    return at(places, false) === moving.length
  }
  await seen(replicas, gone, moveMs)
  t.comment(`all of them were elsewhere ${seconds(began)} after it stopped; ${failures()} dials failed so far`)
  await replica.start()
  const back = performance.now()
  const returned = (places: ReadonlyMap<number, string>) => {
    watchStrays(places)
    return at(places, true) >= 0.9 * moving.length
  }
  const early = await seen(replicas, returned, agedMs)
  t.comment(`${at(early, true)} of ${moving.length} were back at ${away} ${seconds(back)} after it was`)
  await delay(Math.max(0, agedMs - (performance.now() - back)))
  const after = await seen(replicas, (places) => returned(places) && places.size === count, moveMs)
  for (const stray of strays) t.comment(stray)
  for (const [, line] of front.program.stdout.matchAll(/^(Server kas_agents.*(?:DOWN|UP).*)$/gm)) t.comment(line)
  t.same([...strays], [], 'agents of the other two never moved')
  const right = [...after].filter(([id, place]) => place === before.get(id)).length
  t.ok(right >= 0.9 * count, `${right} of ${count} are where they were, ${seconds(back)} after it was back`)
}

/**
 * Starts the agents in a thread of their own: replicas that are busy with agents would answer a front's probes late.
 */
async function startAgents(t: Test, { replicas, front }: Fronted): Promise<() => number> {
  const workerData: PlacedAgentsOptions = {
    caFile: `${replicas.processes.folder}/ca.crt`,
    addresses: [webSocketAddress(front), grpcAddress(front)],
    ids,
  }
  const worker = new Worker(new URL('./placed-agents.ts', import.meta.url), { workerData })
  let failed = 0
  worker.on('message', () => failed++)
  t.teardown(() => worker.terminate())
  return () => failed
}

const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`

/** Last place of each agent, once the places are `enough`: at any moment some agents are between two connections. */
async function seen(
  replicas: FrontedReplicas,
  enough: (places: ReadonlyMap<number, string>) => boolean,
  timeoutMs: number,
) {
  const places = new Map<number, string>()
  return await eventually(
    async () => {
      for (const [id, place] of await replicas.places()) if (/^kas-\d$/.test(place)) places.set(id, place)
      if (!enough(places)) throw new Error(JSON.stringify([...places]))
      return places
    },
    { timeoutMs },
  )
}
