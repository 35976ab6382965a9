import type { LocalReplica } from '../../../dev/start/local-replica.ts'
import { holdersOf, statusOf } from '../../../dev/start/replica-table.ts'
import { abortable, delay } from '../../../src/lib/signals.ts'
import type { Findings, Stage } from '../scene.ts'
import { countRequests } from './audit-log.ts'
import { FaultyGround } from './faulty-ground.ts'
import { type CallEnd, callKinds, callKubectl } from './kubectl-call.ts'
import { planRounds, type Round, textOf } from './rounds.ts'
import { verdict } from './verdict.ts'

export interface ExactlyOnceOptions {
  /** number of faults */
  readonly times: number
  readonly seed: number
}

/** Results of a round. */
export interface Played {
  readonly round: Round
  /** requests in the cluster when the fault came */
  readonly inside: number
  readonly ends: readonly CallEnd[]
}

/** time for the requests of three kubectl to reach the cluster; less than the API server waits for the gate. ms */
const arrivalMs = 10_000

/**
 * kubectl creates objects and runs commands, while replicas on their way are killed and frozen. No request that kubectl
 * sent once reaches the API server twice.
 *
 * @param assets - value of KUBEBUILDER_ASSETS
 */
export async function exactlyOnce(
  { say, signal }: Pick<Stage, 'say' | 'signal'>,
  { assets }: { assets: string },
  { times, seed }: ExactlyOnceOptions,
): Promise<Findings> {
  const ground = await FaultyGround.start({ assets, say, signal })
  const played: Played[] = []
  try {
    for (const round of planRounds(times, seed)) {
      const now = await play(ground, round).catch(async (error) => {
        if (signal.aborted) return undefined
        throw new Error(`${textOf(round)}: ${await ground.logTails()}`, { cause: error })
      })
      if (!now) break
      played.push(now)
      say(`${textOf(round)}: ${now.inside} inside; ${now.ends.map(shortOf).join(', ')}`)
    }
    const ran = await ground.ran()
    const { figures, failures } = verdict({ played, counts: countRequests(await ground.end()), ran })
    return {
      figures,
      failures: [...failures, ...(signal.aborted ? [`interrupted after ${played.length} rounds`] : [])],
    }
  } finally {
    await ground.stop()
  }
}

async function play(ground: FaultyGround, round: Round): Promise<Played> {
  const { stage, gate } = ground
  stage.signal.throwIfAborted()
  const places = await choosePlaces(ground, round)
  const { entry } = places
  const prefix = `once-${round.number}-`
  gate.close()
  const arrived = gate.arrivals(prefix, callKinds.length)
  const calls = callKinds.map((kind) =>
    callKubectl(ground, ground.place(entry.name), { kind, identity: prefix + kind }),
  )
  const ended = Promise.all(calls)
  ended.catch(() => undefined) // awaited below
  if (round.moment !== 'early') await Promise.race([arrived, ended, delay(arrivalMs, stage.signal)])
  if (round.moment === 'late') gate.open()
  await delay(round.afterMs, stage.signal)
  const victim = round.victim === 'entry' ? entry : await busiest(places)
  const inside = gate.inside
  const opened = delay(round.holdMs, stage.signal).finally(() => gate.open())
  await Promise.all([opened, round.fault === 'kill' ? ground.kill(victim) : ground.freeze(victim, round.frozenMs)])
  const ends = await abortable(ended, stage.signal)
  await stage.settle()
  return { round, inside, ends }
}

interface Places {
  readonly entry: LocalReplica
  /** the agent's home first */
  readonly holders: readonly LocalReplica[]
}

async function choosePlaces({ stage }: FaultyGround, round: Round): Promise<Places> {
  const views = await stage.until('a replica holds the agent', (all) => holdersOf(all).length > 0)
  const names = holdersOf(views)
  const holders = names.flatMap((name) => stage.running.find((replica) => replica.name === name) ?? [])
  const others = stage.running.filter((replica) => !holders.includes(replica))
  const entry = round.entryHolds ? holders[0] : (others[0] ?? holders.at(-1))
  if (!entry) throw new Error('no replica holds the agent any more')
  return { entry, holders }
}

/** Returns the holder that carries the most calls of this entry now. */
async function busiest({ entry, holders }: Places): Promise<LocalReplica> {
  if (holders.includes(entry)) return entry
  const members = (await statusOf(entry.socket))?.members ?? []
  const callsOf = ({ name }: LocalReplica) => members.find((member) => member.name === name)?.calls ?? 0
  return [...holders].sort((a, b) => callsOf(b) - callsOf(a))[0] as LocalReplica
}

function shortOf({ kind, succeeded, delivery, fellBack }: CallEnd): string {
  return `${kind} ${succeeded ? 'ok' : (delivery ?? 'failed')}${fellBack ? ' (by SPDY after all)' : ''}`
}
