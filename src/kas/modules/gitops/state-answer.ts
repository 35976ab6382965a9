import { setImmediate } from 'node:timers/promises'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { ageMs } from '../../../proto/age-ms.ts'
import { SourceStateSchema } from '../../../proto/gen/gitops_states_pb.ts'
import {
  type FollowedConfigurationSchema,
  Gitops,
  PolledSchema,
  type PushedState,
} from '../../../proto/gen/replica_gitops_pb.ts'
import { Views } from '../../../proto/gen/views_pb.ts'
import { methodPath } from '../../../proto/unary.ts'
import { Reader } from '../../../proto/wire/wire.ts'
import type { KasHost } from '../../module.ts'
import type { Peers } from '../../peers/peers.ts'
import type { Reading } from '../../repositories/repositories.ts'
import type { ContainedCommits } from './contained-commits.ts'
import { correctedRow } from './corrected-row.ts'
import { type FollowedCommits, isLasting, polledOf } from './followed-commits.ts'
import { configurationReading } from './fresh-polls.ts'
import {
  agentWord,
  configurationJson,
  digestsOf,
  followedConfiguration,
  refusedByOlder,
  unknownToOlder,
  unreportedSources,
} from './named-sources.ts'
import { shortRow, sourceRow } from './source-row.ts'
import type { States } from './states.ts'
import { addSubjects, rowFor, type SeenNames, type Subject } from './subjects.ts'

/** A method that each pod of agentk has, and GitLab's own agent lacks. */
const leadMethod = methodPath(Views.method.lead)

/** Components that know what all replicas do. */
export interface StateComponents {
  readonly states: Pick<States, 'of' | 'isCut'>
  readonly commits: Pick<FollowedCommits, 'of'>
  readonly repositories: Pick<KasHost['repositories']['trees'], 'lastPoll'>
  readonly contained: Pick<ContainedCommits, 'find'>
  readonly agentConfig: Pick<KasHost['agentConfig'], 'followed'>
  readonly serves: KasHost['serves']
  readonly away: KasHost['away']
  readonly directory: Pick<KasHost['directory'], 'readHint'>
  readonly peers: Pick<Peers, 'broadcast'>
  readonly clock: Clock
}

/** Components that know this replica alone. */
export type OwnComponents = Pick<
  StateComponents,
  'states' | 'commits' | 'repositories' | 'contained' | 'agentConfig' | 'clock'
>

export interface AskedCommit {
  /** the commit that heads are searched for; empty: none */
  readonly commit: string
  /** caller that the question is charged to */
  readonly caller: string
}

export const noCommit: AskedCommit = { commit: '', caller: '' }

/** Parts of an answer. */
interface AnswerParts {
  readonly states: readonly State[]
  /** makes the row of a source; undefined: it has left */
  readonly whole: (state: State) => object | undefined
  readonly unreported: readonly object[]
  readonly rest: object
}

/** The answer to all who ask at once. Each of them sees the names of the objects that it may get. */
export class StateAnswer {
  readonly #parts: AnswerParts
  #subjects: Promise<ReadonlyMap<string, Subject>> | undefined
  /** by what its readers see */
  readonly #texts = new Map<string, Promise<Uint8Array>>()

  constructor(parts: AnswerParts) {
    this.#parts = parts
  }

  /** Kinds and namespaces of the objects that it names, by their texts. */
  subjects(): Promise<ReadonlyMap<string, Subject>> {
    this.#subjects ??= this.#readSubjects()
    return this.#subjects
  }

  /** Returns it as JSON. @throws KasError MESSAGE_TOO_LARGE */
  text(names: SeenNames): Promise<Uint8Array> {
    const key = JSON.stringify([[...names.allowed].sort(), names.problem])
    const known = this.#texts.get(key) ?? this.#textFor(names)
    this.#texts.set(key, known)
    return known
  }

  async #readSubjects(): Promise<ReadonlyMap<string, Subject>> {
    const { states, whole } = this.#parts
    const subjects = new Map<string, Subject>()
    for (const state of states) {
      addSubjects(whole(state) ?? {}, subjects)
      await setImmediate()
    }
    return subjects
  }

  async #textFor(names: SeenNames): Promise<Uint8Array> {
    const { states, whole, unreported } = this.#parts
    const row = (state: State) => {
      const all = whole(state)
      return all && rowFor(all, names)
    }
    const rest = { ...this.#parts.rest, ...(names.problem !== '' && { names: { problem: names.problem } }) }
    const body = (await textOf(states, row, unreported, rest)) ?? (await textOf(states, shortRow, [], rest))
    if (!body) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: maxBodyBytes + 1, maxBytes: maxBodyBytes })
    return body
  }
}

/** Reads what all replicas know. */
export async function answerFor(
  components: StateComponents,
  agentId: AgentId,
  asked: AskedCommit,
): Promise<StateAnswer> {
  const { commit } = asked
  const answers = await components.peers.broadcast(Gitops.method.states, { agentId, ...asked })
  const all = [ownStates(components, agentId, asked), ...answers.values()]
  const states = newest(all.flatMap(({ state }) => state))
  const configuration = newestRead(all.flatMap((each) => each.configuration ?? []))
  const agent = agentWord(components.serves(agentId, leadMethod))
  const rest = {
    agent,
    ...(commit !== '' && { commit }),
    ...awayJson(components.away(agentId)),
    ...(all.some(({ isCut }) => isCut) && { cut: true }),
    ...(configuration && {
      configuration: { ...configurationJson(configuration), ...polledJson([configuration.polled]) },
    }),
  }
  const unreported = unreportedSources(agentId, { configuration, states: states.map(({ state }) => state), agent })
  const hint = (project: string) => components.directory.readHint(agentId, project)
  const commits = Map.groupBy(
    all.flatMap((each) => [...each.commits, ...each.recent]),
    ({ project, ref }) => `${project} ${ref}`,
  )
  const digests = configuration && digestsOf(configuration)
  const isRefusedByOlder = configuration && unknownToOlder(configuration)
  const whole = (state: State) => {
    const source = sourceRow(state, hint)
    if (!source) return undefined
    const { digest: reported, ...row } = source
    const ofRef = commits.get(`${source.project} ${source.ref}`) ?? []
    const digest = digests?.(source.project, source.name)
    const corrected = correctedRow({ commits: ofRef, configuration, digest }, source)
    // a source that left the configuration has no digest
    const isCurrent = digests && (reported === '' ? undefined : reported === digest)
    const refused = isRefusedByOlder?.(source.project, source.name) ? refusedByOlder : {}
    const polled = polledJson(ofRef.map((one) => one.polled))
    return { ...row, ...corrected, ...refused, ...polled, is_current: isCurrent }
  }
  return new StateAnswer({ states, whole, unreported, rest })
}

/** Returns the commit and age of the newest of these polls; empty: not known. */
function polledJson(all: readonly (MessageInitShape<typeof PolledSchema> | undefined)[]): object {
  const [newest] = all.flatMap((one) => one ?? []).toSorted((one, other) => (one.ageMs ?? 0) - (other.ageMs ?? 0))
  if (!newest) return {}
  const { commit = '', ageMs = 0, contains } = newest
  return { polled: { commit, age_ms: ageMs, ...(contains !== undefined && { contains }) } }
}

/** Returns the agent's absence as an error of a view does. */
function awayJson(away: ReturnType<KasHost['away']>): object {
  if (!away) return {}
  const { code, message: text } = new KasError({ code: 'AGENT_NOT_CONNECTED', waitedMs: 0, ...away })
  return { away: { code, text } }
}

/** Bytes of a body that names objects; if it would be longer, only their numbers are sent. */
const maxBodyBytes = 3 * 1024 * 1024

/**
 * Builds the body. Others have their turn after each source.
 *
 * @returns undefined: it would be too long
 */
async function textOf(
  states: readonly State[],
  json: (state: State) => object | undefined,
  unreported: readonly object[],
  rest: object,
): Promise<Uint8Array | undefined> {
  const texts: string[] = []
  let bytes = 0
  for (const state of states) {
    const source = json(state)
    if (source) {
      const text = JSON.stringify(source)
      bytes += Buffer.byteLength(text) + 1
      if (bytes > maxBodyBytes) return undefined
      texts.push(text)
    }
    await setImmediate()
  }
  for (const source of unreported) texts.push(JSON.stringify(source))
  return Buffer.from(`{"sources":[${texts.join()}],${JSON.stringify(rest).slice(1)}`)
}

type State = Pick<PushedState, 'state' | 'ageMs' | 'live'>

interface OwnStates {
  readonly state: State[]
  readonly configuration?: MessageInitShape<typeof FollowedConfigurationSchema> | undefined
  readonly commits: ReturnType<FollowedCommits['of']>
  readonly recent: ReturnType<FollowedCommits['of']>
  readonly isCut: boolean
}

/** Returns what this replica knows. */
export function ownStates(components: OwnComponents, agentId: AgentId, { commit, caller }: AskedCommit): OwnStates {
  const { states, commits, repositories, contained, agentConfig, clock } = components
  const now = clock.now()
  const state = Array.from(states.of(agentId).values(), ({ bytes, at, live }) => ({
    state: bytes,
    ageMs: ageMs(at, now),
    live,
  }))
  const followed = agentConfig.followed(agentId)
  const polled = followed && polledOf(repositories.lastPoll(configurationReading(followed.agent)), now)
  const configuration = followed && {
    ...followedConfiguration(followed, now),
    ...(polled && { polled: create(PolledSchema, polled) }),
  }
  const find = (reading: Reading, head: string) => contained.find(reading, head, commit, caller)
  const contains = commit === '' ? undefined : find
  const all = commits.of(agentId, repositories, contains)
  const recent = all.filter((one) => !isLasting(one))
  return { state, configuration, commits: all.filter(isLasting), recent, isCut: states.isCut(agentId) }
}

/** Returns the configuration that was read last: while the agent moves, two replicas may follow it. */
function newestRead(all: readonly NonNullable<OwnStates['configuration']>[]): OwnStates['configuration'] {
  return all.toSorted((one, other) => (one.ageMs ?? 0) - (other.ageMs ?? 0))[0]
}

/**
 * Returns one state per source: that of an open stream first, then the newest. While the agent moves, two replicas may
 * know it.
 */
function newest(all: readonly State[]): State[] {
  const bySource = new Map<string, State>()
  for (const state of all) {
    const source = sourceOf(state.state)
    const known = bySource.get(source)
    if (known && (known.live === state.live ? known.ageMs <= state.ageMs : known.live)) continue
    bySource.set(source, state)
  }
  return [...bySource.values()]
}

/** Reads only the source's id. @throws KasError INVALID_MESSAGE */
function sourceOf(state: Uint8Array): string {
  let source = ''
  const reader = new Reader(state)
  while (reader.next()) if (reader.field === SourceStateSchema.field.source.number) source = reader.utf8
  return source
}
