import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { KasError } from '../../lib/errors.ts'
import { type LineFilterSchema, Log, RecentLinesResponseSchema } from '../../proto/gen/replica_log_pb.ts'
import { type UnaryMethods, unaryService } from '../../proto/unary.ts'
import { type LineFilter, maxRecentBytes, type RecentLines } from '../access-log/recent-lines.ts'
import type { Peer, Peers } from '../peers/peers.ts'

/** Bound of one answer between replicas, which blocks their event loop while it is written. bytes */
const maxPageBytes = 1024 * 1024
/** Bound of all replicas' lines for one reader; above it, further replicas are listed as incomplete. bytes */
const maxMergedBytes = 64 * 1024 * 1024
/** Interval of the questions to peers whose lines are followed. ms */
const followMs = 1000

export interface ReplicaLogComponents {
  /** undefined: this replica keeps no lines */
  readonly recent: RecentLines | undefined
  readonly peers: Pick<Peers, 'all' | 'call'>
  /** ms since 1970 */
  readonly clock: Clock
}

/** Lines of all replicas that answered, each with its end, the oldest first. */
export interface MergedLines {
  readonly lines: readonly string[]
  /** names of replicas that did not answer, whose lines are missing */
  readonly unreached: readonly string[]
  /** names of replicas whose older lines are left out */
  readonly incomplete: readonly string[]
}

/** `last`: number of newest lines of each replica; absent: all that are kept. */
export interface LinesOptions {
  readonly last?: number
}

/** Number of the next line of each instance. */
type Positions = Map<Peer['instance'], bigint>

/** Reads the access log of all replicas. */
export class ReplicaLog {
  readonly #components: ReplicaLogComponents

  constructor(components: ReplicaLogComponents) {
    this.#components = components
  }

  /** Methods for peers. */
  get replicaMethods(): UnaryMethods {
    return unaryService(Log, {
      recent: async ({ filter, from, last }) => {
        const { agentId = 0n, user = '', verb = '', since = '', userId = 0n } = filter ?? {}
        const wanted: LineFilter = {
          ...(agentId > 0n ? { agent: String(agentId) } : {}),
          ...(user === '' ? {} : { user }),
          ...(verb === '' ? {} : { verb }),
          ...(since === '' ? {} : { since }),
          ...(userId > 0n ? { userId: String(userId) } : {}),
        }
        const { lines, next, isWhole } = this.#own().page(wanted, { from: Number(from), last, maxBytes: maxPageBytes })
        return create(RecentLinesResponseSchema, { line: [...lines], next: BigInt(next), whole: isWhole })
      },
    })
  }

  /** @throws KasError NOT_SERVED: this replica has no access log */
  async read(filter: LineFilter, options: LinesOptions = {}): Promise<MergedLines> {
    return (await this.#read(filter, options)).merged
  }

  /**
   * Reads the present lines, and later ones.
   *
   * @returns `follow`: calls `listener` with each new line, until the returned function is called
   * @throws KasError NOT_SERVED
   */
  async open(filter: LineFilter): Promise<MergedLines & { follow(listener: (line: string) => void): () => void }> {
    const own = this.#own()
    const early: string[] = []
    let listen: ((line: string) => void) | undefined
    const stopOwn = own.follow(filter, (line) => {
      if (listen) listen(line)
      else early.push(line) // peers are being asked
    })
    try {
      const { merged, positions } = await this.#read(filter, {})
      const isNew = new Set(merged.lines)
      return {
        ...merged,
        follow: (listener) => {
          for (const line of early) if (!isNew.has(line)) listener(line)
          listen = listener
          const stopPeers = this.#followPeers(filter, positions, listener)
          return () => {
            stopOwn()
            stopPeers()
          }
        },
      }
    } catch (error) {
      stopOwn()
      throw error
    }
  }

  #own(): RecentLines {
    const { recent } = this.#components
    if (recent) return recent
    const what = 'there is no access log: observability.access_log.output is none'
    throw new KasError({ code: 'NOT_SERVED', what })
  }

  async #read(filter: LineFilter, { last = 0 }: LinesOptions) {
    const own = this.#own()
    const room = { left: maxMergedBytes }
    const positions: Positions = new Map()
    const unreached: string[] = []
    const incomplete: string[] = []
    const lists: string[][] = []
    const readPeer = async (peer: Peer) => {
      const lines: string[] = []
      lists.push(lines)
      try {
        const isWhole = await this.#readPages(peer, { filter, last, positions, room }, lines)
        if (!isWhole) incomplete.push(peer.name)
      } catch {
        unreached.push(peer.name)
      }
    }
    await Promise.all(this.#components.peers.all().map(readPeer))
    lists.push([...own.page(filter, { from: 0, last, maxBytes: maxRecentBytes }).lines])
    const lines = lists.length === 1 ? lists.flat() : lists.flat().sort(byTime)
    return { merged: { lines, unreached, incomplete }, positions }
  }

  /** @returns false: the lines exceed a bound */
  async #readPages(
    peer: Peer,
    asked: { filter: LineFilter; last: number; positions: Positions; room: { left: number } },
    lines: string[],
  ): Promise<boolean> {
    const { filter, last, positions, room } = asked
    for (let bytes = 0; ; ) {
      const from = positions.get(peer.instance) ?? 0n
      const request = { filter: messageOf(filter), from, last: from === 0n ? last : 0 }
      const { line, next, whole } = await this.#components.peers.call(peer.instance, Log.method.recent, request)
      const pageBytes = line.reduce((sum, one) => sum + one.length, 0)
      positions.set(peer.instance, next)
      lines.push(...line)
      bytes += pageBytes
      room.left -= pageBytes
      if (whole) return true
      if (next <= from || bytes > maxRecentBytes + maxPageBytes || room.left < 0) return false
    }
  }

  /** Asks each peer every second for new lines. A peer that does not answer is asked again. */
  #followPeers(filter: LineFilter, positions: Positions, listener: (line: string) => void): () => void {
    const { peers, clock } = this.#components
    const since = new Date(clock.now()).toISOString()
    let isStopped = false
    let cancel: (() => void) | undefined
    const ask = async (peer: Peer) => {
      const isKnown = positions.has(peer.instance)
      const lines: string[] = []
      const asked = {
        filter: isKnown ? filter : { ...filter, since },
        last: 0,
        positions,
        room: { left: maxMergedBytes },
      }
      await this.#readPages(peer, asked, lines).catch(() => false)
      if (!isStopped) lines.forEach(listener)
    }
    const askAll = async () => {
      await Promise.all(peers.all().map(ask))
      if (!isStopped) cancel = clock.after(followMs, () => void askAll())
    }
    cancel = clock.after(followMs, () => void askAll())
    return () => {
      isStopped = true
      cancel?.()
    }
  }
}

function messageOf({
  agent = '0',
  user = '',
  verb = '',
  since = '',
  userId = '0',
}: LineFilter): MessageInitShape<typeof LineFilterSchema> {
  return { agentId: BigInt(agent) as AgentId, user, verb, since, userId: BigInt(userId) }
}

const timeStart = '{"time":"'
const timeLength = '2026-11-26T18:00:00.000Z'.length

/** Returns the time, with which each line begins. */
function timeOf(line: string): string {
  return line.startsWith(timeStart) ? line.slice(timeStart.length, timeStart.length + timeLength) : ''
}

function byTime(one: string, other: string): number {
  const [a, b] = [timeOf(one), timeOf(other)]
  return a < b ? -1 : a > b ? 1 : 0
}
