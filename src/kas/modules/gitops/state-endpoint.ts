import { setImmediate } from 'node:timers/promises'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import type { AgentId } from '../../../call/call.ts'
import { payerOf } from '../../../call/caller.ts'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { ageMs } from '../../../proto/age-ms.ts'
import { SourceStateSchema } from '../../../proto/gen/gitops_states_pb.ts'
import {
  type FollowedConfigurationSchema,
  Gitops,
  PolledSchema,
  PollResponseSchema,
  type PushedState,
  StatesResponseSchema,
} from '../../../proto/gen/replica_gitops_pb.ts'
import { Views } from '../../../proto/gen/views_pb.ts'
import { methodPath, type UnaryMethods, unaryService } from '../../../proto/unary.ts'
import { Reader } from '../../../proto/wire/wire.ts'
import type { KasHost } from '../../module.ts'
import type { OwnEndpoint } from '../../own-endpoint.ts'
import type { Peers } from '../../peers/peers.ts'
import { isCommitId, type Reading } from '../../repositories/repositories.ts'
import type { ContainedCommits } from './contained-commits.ts'
import { correctedRow } from './corrected-row.ts'
import { type FollowedCommits, isLasting, polledOf } from './followed-commits.ts'
import { configurationReading, type FreshPolls } from './fresh-polls.ts'
import { agentWord, configurationJson, digestsOf, followedConfiguration, unreportedSources } from './named-sources.ts'
import { shortRow, sourceRow } from './source-row.ts'
import type { States } from './states.ts'

/** A method that each pod of agentk has, and GitLab's own agent lacks. */
const leadMethod = methodPath(Views.method.lead)

export interface StateComponents {
  readonly states: Pick<States, 'of' | 'isCut'>
  readonly commits: Pick<FollowedCommits, 'of'>
  readonly repositories: Pick<KasHost['repositories']['trees'], 'lastPoll'>
  readonly contained: Pick<ContainedCommits, 'find'>
  /** polls for callers that ask for the current state */
  readonly polls: Pick<FreshPolls, 'ask' | 'decide' | 'pollOwn'>
  readonly agentConfig: Pick<KasHost['agentConfig'], 'followed'>
  readonly serves: KasHost['serves']
  readonly away: KasHost['away']
  readonly directory: Pick<KasHost['directory'], 'readHint'>
  readonly peers: Pick<Peers, 'broadcast'>
  readonly clock: Clock
}

type OwnComponents = Pick<
  StateComponents,
  'states' | 'commits' | 'repositories' | 'contained' | 'agentConfig' | 'clock'
>

/** Methods that peers call at this replica. */
export function statesOfPeer(components: OwnComponents & Pick<StateComponents, 'polls'>): UnaryMethods {
  const { polls } = components
  return unaryService(Gitops, {
    states: async ({ agentId, commit, caller }) => {
      const asked = { commit, caller: caller === '' ? `agent ${agentId}` : caller }
      return create(StatesResponseSchema, ownStates(components, agentId as AgentId, asked))
    },
    poll: async ({ agentId, decides }) => {
      if (decides) polls.decide(agentId as AgentId)
      else polls.pollOwn(agentId as AgentId)
      return create(PollResponseSchema, {})
    },
  })
}

/**
 * Serves `GET <prefix>gitops/state`: the status of the agent's sources. It has the last report of its pod to any
 * replica, and the sources that the configuration names beside those (doc/guide/gitops.md). Concurrent requests get the same
 * answer.
 */
export function stateEndpoint(components: StateComponents): OwnEndpoint {
  const answers = new Map<string, Promise<Uint8Array>>()
  const nextAnswers = new Map<string, Promise<Uint8Array>>()
  const keyOf = (agentId: AgentId, { commit }: AskedCommit) => `${agentId} ${commit}`
  const answer = (agentId: AgentId, asked: AskedCommit) => {
    const key = keyOf(agentId, asked)
    const running = answers.get(key)
    if (running) return running
    const begun = bodyFor(components, agentId, asked).finally(() => answers.delete(key))
    answers.set(key, begun)
    return begun
  }
  /** Begins an answer, or joins the next one: ages in a running one are older than the request. */
  const freshAnswer = (agentId: AgentId, asked: AskedCommit) => {
    components.polls.ask(agentId)
    const key = keyOf(agentId, asked)
    const running = answers.get(key)
    if (!running) return answer(agentId, asked)
    const next =
      nextAnswers.get(key) ??
      running
        .catch(() => undefined)
        .then(() => {
          nextAnswers.delete(key)
          return answer(agentId, asked)
        })
    nextAnswers.set(key, next)
    return next
  }
  return {
    path: '/gitops/state',
    methods: ['GET'],
    isLong: true,
    serve: async ({ agentId, caller, query }) => {
      const isFresh = query?.get('fresh')?.[0] === 'true'
      const [commit = ''] = query?.get('commit') ?? []
      const asked = isFresh && isCommitId(commit) ? { commit, caller: payerOf(caller) } : noCommit
      const body = await (isFresh ? freshAnswer(agentId, asked) : answer(agentId, asked))
      return { status: 200, mediaType: 'application/json', body }
    },
  }
}

interface AskedCommit {
  /** the commit that heads are searched for; empty: none */
  readonly commit: string
  /** caller that the question is charged to */
  readonly caller: string
}

const noCommit: AskedCommit = { commit: '', caller: '' }

async function bodyFor(components: StateComponents, agentId: AgentId, asked: AskedCommit): Promise<Uint8Array> {
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
  const whole = (state: State) => {
    const source = sourceRow(state, hint)
    if (!source) return undefined
    const { digest: reported, ...row } = source
    const ofRef = commits.get(`${source.project} ${source.ref}`) ?? []
    const digest = digests?.(source.project, source.name)
    const corrected = correctedRow({ commits: ofRef, configuration, digest }, source)
    // a source that left the configuration has no digest
    const isCurrent = digests && (reported === '' ? undefined : reported === digest)
    return { ...row, ...corrected, ...polledJson(ofRef.map(({ polled }) => polled)), is_current: isCurrent }
  }
  const body = (await textOf(states, whole, unreported, rest)) ?? (await textOf(states, shortRow, [], rest))
  if (!body) throw new KasError({ code: 'MESSAGE_TOO_LARGE', bytes: maxBodyBytes + 1, maxBytes: maxBodyBytes })
  return body
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

function ownStates(components: OwnComponents, agentId: AgentId, { commit, caller }: AskedCommit): OwnStates {
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
