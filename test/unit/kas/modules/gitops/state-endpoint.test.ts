import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { AgentConfiguration } from '../../../../../src/kas/agent-config/agent-config-reader.ts'
import type { FollowedCommits } from '../../../../../src/kas/modules/gitops/followed-commits.ts'
import { stateEndpoint, statesOfPeer } from '../../../../../src/kas/modules/gitops/state-endpoint.ts'
import type { OwnRequest } from '../../../../../src/kas/own-endpoint.ts'
import { noPeers, type Peers } from '../../../../../src/kas/peers/peers.ts'
import type { CommitId } from '../../../../../src/kas/repositories/repositories.ts'
import { type Away, KasError } from '../../../../../src/lib/errors.ts'
import { Left, Phase, SourceStateSchema } from '../../../../../src/proto/gen/gitops_states_pb.ts'
import { Gitops, StatesRequestSchema, StatesResponseSchema } from '../../../../../src/proto/gen/replica_gitops_pb.ts'
import { sourceDigest } from '../../../../../src/proto/gitops/source-digest.ts'
import { methodPath } from '../../../../../src/proto/unary.ts'
import { someAgent } from '../../../../support/fake-agent-call.ts'
import { bareDirectory, unpolled } from '../../../../support/fake-host.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

/** No configuration is followed, and a pod of the agent is connected to this replica. */
const rest = {
  commits: { of: () => [] },
  agentConfig: { followed: () => undefined },
  serves: () => true,
  away: () => undefined,
  ...unpolled,
  directory: bareDirectory,
}

/** Starts the endpoint at a replica with one peer. The peer has `count` sources of each agent. */
function start(count: number, environment: string[]) {
  let asked = 0
  const broadcast = async (_: unknown, { agentId }: { agentId: bigint }) => {
    asked += 1
    const state = Array.from({ length: count }, (_each, i) => {
      const bytes = toBinary(SourceStateSchema, create(SourceStateSchema, { source: `${agentId}-${i}`, environment }))
      return { state: bytes, ageMs: 1, live: true }
    })
    return new Map([['peer', create(StatesResponseSchema, { state })]])
  }
  const peers = { broadcast } as unknown as Pick<Peers, 'broadcast'>
  const endpoint = stateEndpoint({
    states: { of: () => new Map(), isCut: () => false },
    ...rest,
    peers,
    clock: new ManualClock(),
  })
  const get = async (agentId: bigint) => {
    const { status, body } = await endpoint.serve({ agentId: agentId as AgentId } as OwnRequest)
    return { status, sources: JSON.parse(Buffer.from(body).toString()).sources as { source: string; cut?: true }[] }
  }
  return { get, asked: () => asked }
}

t.test('who asks of one agent at once shares an answer, and nobody gets another agent’s', async (t) => {
  const { get, asked } = start(1, [])
  const [first, second, other] = await Promise.all([get(42n), get(42n), get(43n)])
  t.strictSame(
    [first, second, other].map(({ sources }) => sources.map(({ source }) => source)),
    [['42-0'], ['42-0'], ['43-0']],
  )
  t.equal(asked(), 2)
  await get(42n)
  t.equal(asked(), 3, 'who comes later gets what is so then')
})

t.test('states that are too long together are cut, whatever makes them so', async (t) => {
  const { get } = start(60, Array(6).fill('e'.repeat(10_000)))
  const { status, sources } = await get(42n)
  t.equal(status, 200)
  t.equal(sources.filter(({ cut }) => cut).length, 60)
})

/** Starts the endpoint at a lone replica that follows a configuration with these sources. */
function alone(given: {
  readonly manifest_projects?: readonly object[]
  readonly error?: KasError
  readonly reported?: readonly {
    source: string
    project: string
    name?: string
    reason?: string
    left?: Left
    isWaitingForOthers?: boolean
    ref?: string
    wanted?: string
    planned?: { kind: string; name: string }[]
    phase?: Phase
    digest?: string
  }[]
  /** time for which the configuration has been the same, ms */
  readonly unchangedMs?: number
  readonly serves?: boolean | undefined
  readonly away?: Away
  readonly isCut?: boolean
  /** tells which kinds the caller may get; absent: all */
  readonly review?: (subjects: readonly { readonly kind: string }[]) => Promise<readonly boolean[]>
  /** a pod of the agent does not know `drift` */
  readonly isOlder?: boolean
  readonly commits?: ReturnType<FollowedCommits['of']>
  /** commits that a peer reports */
  readonly ofPeer?: ReturnType<FollowedCommits['of']>
}) {
  const value = { manifest_projects: given.manifest_projects ?? [] }
  const good = { commit: 'c1' as CommitId, since: 0, blocks: new Map([['gitops', { json: '', value }]]) }
  const followed = {
    agent: someAgent,
    good: good as unknown as AgentConfiguration,
    error: given.error,
    readAt: 0,
    hasFeature: () => !given.isOlder,
  }
  const states = new Map(
    (given.reported ?? []).map((init) => {
      const bytes = toBinary(SourceStateSchema, create(SourceStateSchema, init))
      return [init.source, { bytes, at: 0, live: true }] as const
    }),
  )
  const endpoint = stateEndpoint({
    states: { of: () => states, isCut: () => given.isCut ?? false },
    agentConfig: { followed: () => followed },
    serves: () => given.serves,
    away: () => given.away,
    ...unpolled,
    ...(given.review && { questions: { review: (_, subjects) => given.review?.(subjects) ?? Promise.resolve([]) } }),
    commits: { of: () => given.commits ?? [] },
    directory: { readHint: (_, project) => `let it read ${project}` },
    peers: given.ofPeer ? peerThatFollows(given.ofPeer) : noPeers,
    clock: new ManualClock(given.unchangedMs ?? 0),
  })
  return async () => {
    const { signal } = new AbortController()
    const { body } = await endpoint.serve({ agentId: someAgent.id, signal } as OwnRequest)
    return JSON.parse(Buffer.from(body).toString()) as { sources: Record<string, unknown>[] }
  }
}

function peerThatFollows(all: ReturnType<FollowedCommits['of']>): Pick<Peers, 'broadcast'> {
  const states = { of: () => new Map(), isCut: () => false }
  const serve = statesOfPeer({ states, ...rest, commits: { of: () => all }, clock: new ManualClock() }).get(
    methodPath(Gitops.method.states),
  )
  const request = toBinary(StatesRequestSchema, create(StatesRequestSchema, { agentId: someAgent.id }))
  const broadcast = async () => {
    const answer = await serve?.(request)
    return new Map([['peer', answer && fromBinary(StatesResponseSchema, answer)]])
  }
  return { broadcast } as unknown as Pick<Peers, 'broadcast'>
}

t.test('an agent that is away: since when, as an error of a view has it', async (t) => {
  t.notOk('away' in (await alone({ serves: true })()))
  const { away } = (await alone({ away: { agentId: '42', awayMs: 61_000 } })()) as { away?: object }
  t.match(away, {
    code: 'AGENT_NOT_CONNECTED',
    text: /connection of agent 42 for at least 61 s\. .* logs deployment\/agentk/,
  })
})

t.test('what the configuration names has a row, also if no pod has reported it', async (t) => {
  const manifest_projects = [{ id: 'A/b' }, { name: 'own', ref: { branch: 'main' } }]
  const reported = [{ source: '42-7', project: 'a/B' }]
  const { sources, ...rest } = await alone({ manifest_projects, reported, serves: true })()
  t.match(rest, { agent: 'connected', configuration: { commit: 'c1', age_ms: 0 } })
  t.equal(sources.length, 2)
  t.match(sources[1], {
    source: `${someAgent.id}-${someAgent.project.path}-own`,
    project: someAgent.project.path,
    name: 'own',
    ref: 'branch main',
    phase: 'NOT_READY',
    reason: 'not_reported',
    next: /log of agentk/,
  })
  for (const [serves, agent, reason] of [
    [false, 'stock', 'stock_agent'],
    [undefined, 'absent', 'agent_absent'],
  ] as const) {
    t.match(await alone({ manifest_projects, serves })(), { agent, sources: [{ reason }, { reason }] })
  }
})

t.test('a source with drift is not ready at an older agentk, whatever that one says of it', async (t) => {
  const drift = { mode: 'report' }
  const manifest_projects = [
    { id: 'a/b' },
    { id: 'a/b', name: 'drift', drift },
    { id: 'a/b', name: 'unreported', drift },
  ]
  const synced = { project: 'a/b', phase: Phase.SYNCED }
  const reported = [
    { ...synced, source: '42-7' },
    { ...synced, source: '42-7-drift', name: 'drift', reason: 'source_refused' },
  ]
  const older = { phase: 'NOT_READY', reason: 'agent_older', next: 'update agentk', problem: /does not know drift/ }
  const { sources } = await alone({ manifest_projects, reported, isOlder: true, serves: true })()
  t.match(sources, [{ phase: 'SYNCED' }, { source: '42-7-drift', ...older }, { name: 'unreported', ...older }])
  const atNewer = await alone({ manifest_projects, reported, serves: true })()
  t.match(atNewer.sources, [{ phase: 'SYNCED' }, { next: /mend the agent/ }, { reason: 'not_reported' }])
})

t.test('names of objects go to who may get them; without an answer of the agent to nobody', async (t) => {
  const planned = [
    { kind: 'Namespace', name: 'old' },
    { kind: 'Secret', name: 'token' },
  ]
  const reported = [{ source: '42-7', project: 'a/b', phase: Phase.APPROVAL, planned }]
  const state = (review: Parameters<typeof alone>[0]['review']) =>
    alone({ reported, serves: true, ...(review && { review }) })()
  t.match((await state(undefined)).sources, [{ planned }])
  const some = await state(async (subjects) => subjects.map(({ kind }) => kind === 'Namespace'))
  t.match(some.sources, [{ phase: 'APPROVAL', planned: [{ name: 'old' }], withheld: 1 }])
  t.notMatch(JSON.stringify(some), 'token')
  const none = await state(async () =>
    Promise.reject(new KasError({ code: 'GITOPS_NOT_ASKED', reason: 'it is older' })),
  )
  t.match(none, { sources: [{ phase: 'APPROVAL', planned: [], withheld: 2 }], names: { problem: /it is older/ } })
  t.notMatch(JSON.stringify(none), 'old"')
})

t.test('callers with other rights that ask at once see other names', async (t) => {
  const planned = [{ kind: 'Secret', name: 'token' }]
  let asked = 0
  const review = async () => [asked++ === 0]
  const ask = alone({ reported: [{ source: '42-7', project: 'a/b', planned }], serves: true, review })
  const [one, other] = await Promise.all([ask(), ask()])
  t.match(one.sources, [{ planned }])
  t.match(other.sources, [{ planned: [], withheld: 1 }])
})

t.test('a file that is refused says so; of one that cannot be read now nothing is known', async (t) => {
  const refused = new KasError({ code: 'CONFIGURATION_INVALID', detail: 'config.yaml: line 3: gitops.x: not known' })
  t.match(await alone({ error: refused })(), {
    configuration: { phase: 'REFUSED', problem: /line 3: gitops\.x/, next: /mend the file/ },
  })
  const { configuration } = (await alone({ error: new KasError({ code: 'REPOSITORY_FAILED', detail: 'away' }) })()) as {
    configuration?: object
  }
  t.match(configuration, { commit: 'c1', age_ms: 0, phase: 'NOT_READY', problem: /away/, next: /read again by itself/ })
  t.match(await alone({ isCut: true })(), { cut: true })
})

t.test('what lets an agent read a project is said', async (t) => {
  const source = { source: '42-7', project: 'a/b', reason: 'project_not_readable' }
  const { sources } = await alone({ reported: [source], serves: true })()
  t.match(sources, [{ phase: 'NOT_READY', next: 'let it read a/b' }])
  for (const key of ['left', 'is_waiting_for_others', 'is_cut', 'removed']) t.notOk(key in (sources[0] as object), key)
})

t.test('what is known here and not to the agent is said in place of what it has reported', async (t) => {
  const at = { project: 'a/b', phase: Phase.SYNCED, wanted: 'old' }
  const reported = ['branch main', 'branch next', '', 'tag v1'].map((ref, i) => ({
    source: `42-7-${i}`,
    ...at,
    ref,
    ...(ref === 'tag v1' && { phase: Phase.FAILING }),
  }))
  const files = { project: 'a/b', commit: '', problem: '', ageMs: 12_400, ended: false }
  const commits = [
    { ...files, ref: 'branch main', commit: 'abcdef0123456789' },
    { ...files, ref: 'branch next', problem: 'it is not there' },
    { ...files, ref: '', commit: 'older, of another source' },
    { ...files, ref: '', commit: 'old' },
    { ...files, ref: 'tag v1', commit: 'new' },
  ]
  const { sources } = await alone({ reported, commits, serves: true })()
  t.match(sources, [
    {
      phase: 'NOT_READY',
      reason: 'files_not_taken',
      wanted: 'abcdef0123456789',
      problem: 'agentk has said nothing of commit abcdef01 for 12 s',
      next: /is alive/,
    },
    {
      phase: 'NOT_READY',
      reason: 'repository_not_read',
      problem: 'the repository could not be read for 12 s or longer: it is not there',
    },
    { phase: 'SYNCED', reason: '' },
    { phase: 'FAILING', reason: '' },
  ])
})

t.test('a repository that is away says since when nobody could read it, at any replica', async (t) => {
  const failing = { project: 'a/b', ref: 'branch main', commit: 'c', problem: 'away', ageMs: 9_000, ended: false }
  const polled = (readMs: number) => ({ commit: '', ageMs: 1_000, readMs })
  const reported = [{ source: 's', project: 'a/b', ref: 'branch main', phase: Phase.SYNCED, wanted: 'c' }]
  const commits = [{ ...failing, polled: polled(900_000) }]
  const here = await alone({ reported, commits, serves: true })()
  t.match(here.sources[0], { problem: 'the repository could not be read for 900 s: away' })
  const ofPeer = [{ ...failing, problem: '', ageMs: 100_000, polled: polled(79_000) }]
  const both = await alone({ reported, commits, ofPeer, serves: true })()
  t.match(both.sources[0], { problem: 'the repository could not be read for 79 s: away' })
})

t.test('what an agent was sent is not held against it once it follows the same files elsewhere', async (t) => {
  const here = { project: 'a/b', ref: 'branch main', commit: 'old', problem: '', ageMs: 30_000, ended: true }
  const there = { ...here, commit: 'new', ended: false }
  const cases: [wanted: string, ageMs: number, phase: string][] = [
    ['new', 2_000, 'SYNCED'],
    ['new', 20_000, 'SYNCED'],
    ['old', 2_000, 'SYNCED'],
    ['old', 20_000, 'NOT_READY'],
    ['new', 40_000, 'SYNCED'],
  ]
  for (const [wanted, ageMs, phase] of cases) {
    const reported = [{ source: 's', project: 'a/b', ref: 'branch main', phase: Phase.SYNCED, wanted }]
    const peer = { ...there, ageMs }
    const { sources } = await alone({ reported, commits: [here], ofPeer: [peer], serves: true })()
    t.match(sources[0], { phase }, `${wanted} is wanted, and follows the other for ${ageMs} ms`)
    if (phase === 'NOT_READY') t.match(sources[0], { problem: /nothing of commit new for 20 s/ })
  }
})

t.test('a row of another configuration than the agent was sent is not green', async (t) => {
  const taken = { id: 'a/b', name: 'taken', ref: { branch: 'main' } }
  const manifest_projects = [taken, { ...taken, name: 'other-ref' }, { ...taken, name: 'old-agentk' }]
  const at = { project: 'a/b', phase: Phase.SYNCED, wanted: 'c' }
  const digest = sourceDigest(taken)
  const reported = [
    { ...at, source: '1', name: 'taken', digest },
    { ...at, source: '2', name: 'other-ref', digest },
    { ...at, source: '3', name: 'old-agentk' },
    { ...at, source: '4', name: 'has-left', digest, phase: Phase.PAUSED },
    { ...at, source: '5', name: 'is-gone', left: Left.KEPT },
    { ...at, source: '6', name: 'is-refused', digest, phase: Phase.REFUSED },
    { ...at, source: '7', name: '', project: 'c/d', left: Left.KEPT },
  ]
  const given = { manifest_projects: [...manifest_projects, { id: 'c/d' }], reported, serves: true }
  const phasesAfter = async (unchangedMs: number) =>
    (await alone({ ...given, unchangedMs })()).sources.map(({ phase, reason }) => [phase, reason])
  const reportedRows = ['SYNCED', 'SYNCED', 'SYNCED', 'PAUSED', 'KEPT', 'REFUSED', 'KEPT'].map((phase) => [phase, ''])
  t.strictSame(await phasesAfter(7999), reportedRows, 'it is on its way')
  const notTaken = ['NOT_READY', 'configuration_not_taken']
  const rows = reportedRows.map((row, i) => ([1, 3, 6].includes(i) ? notTaken : row))
  t.strictSame(await phasesAfter(8000), rows)
  const { sources } = await alone({ ...given, unchangedMs: 9400 })()
  t.match(sources[1], {
    problem: 'the configuration says something else of it, and agentk has said nothing of that for 9 s',
    next: /is alive/,
  })
  t.match(sources[3], { problem: /^the configuration has it no longer, and/ })
  t.ok(sources.every((source) => !('digest' in source)))
})

t.test(
  'what the newest poll has found, and for how long; a question that is fresh has one made, and its own answer',
  async (t) => {
    const clock = new ManualClock(10_000)
    const asked: AgentId[] = []
    const digest = sourceDigest({ id: 'a/b' } as Parameters<typeof sourceDigest>[0])
    const value = { manifest_projects: [{ id: 'a/b' }] }
    const good = { commit: 'c1' as CommitId, since: 0, blocks: new Map([['gitops', { json: '', value }]]) }
    const row = create(SourceStateSchema, { source: 's', project: 'a/b', phase: Phase.SYNCED, digest })
    const bytes = toBinary(SourceStateSchema, row)
    const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    let broadcasts = 0
    const broadcast = async () => {
      await gates[broadcasts++]?.promise
      return new Map()
    }
    const polled = (commit: string, ageMs: number) => ({
      project: 'a/b',
      ref: '',
      commit: 'x',
      problem: '',
      ageMs: 1,
      ended: false,
      polled: { commit, ageMs },
    })
    const endpoint = stateEndpoint({
      ...rest,
      states: { of: () => new Map([['s', { bytes, at: 0, live: true }]]) as never, isCut: () => false },
      agentConfig: {
        followed: () => ({
          agent: someAgent,
          good: good as never,
          error: undefined,
          readAt: 0,
          hasFeature: () => true,
        }),
      },
      commits: { of: () => [polled('old', 900), polled('new', 20)] as never },
      repositories: { lastPoll: () => ({ commit: 'c2' as CommitId, at: 9_000 }) },
      polls: { ask: (agentId) => void asked.push(agentId), decide: () => undefined, pollOwn: () => undefined },
      peers: { broadcast } as never,
      clock,
    })
    const get = async (query: Map<string, string[]>) =>
      JSON.parse(
        String(Buffer.from((await endpoint.serve({ agentId: someAgent.id, query } as unknown as OwnRequest)).body)),
      )
    const usual = get(new Map())
    t.strictSame(asked, [])
    const fresh = [get(new Map([['fresh', ['true']]])), get(new Map([['fresh', ['true']]]))]
    t.strictSame(asked, [someAgent.id, someAgent.id])
    t.equal(broadcasts, 1)
    gates[0]?.resolve()
    await usual
    gates[1]?.resolve()
    for (const answer of await Promise.all(fresh)) {
      t.match(answer.configuration, { commit: 'c1', polled: { commit: 'c2', age_ms: 1000 } })
      t.match(answer.sources, [{ phase: 'SYNCED', polled: { commit: 'new', age_ms: 20 }, is_current: true }])
    }
    t.equal(broadcasts, 2, 'the two share one that began after they asked')
  },
)

t.test(
  'whether a head contains the commit that is asked for is asked at each replica, and said of the newest poll',
  async (t) => {
    const [commit, head] = ['a', 'b'].map((digit) => digit.repeat(40)) as [string, string]
    const bytes = toBinary(SourceStateSchema, create(SourceStateSchema, { source: 's', project: 'a/b' }))
    const found: string[] = []
    const asked: unknown[] = []
    const commits = {
      of: (_: AgentId, __: unknown, contains?: (of: never, head: string) => boolean | undefined) => {
        const has = contains?.(someAgent as never, head)
        const polled = { commit: head, ageMs: 5, ...(has === undefined ? {} : { contains: has }) }
        return [{ project: 'a/b', ref: '', commit: head, problem: '', ageMs: 1, ended: false, polled }]
      },
    }
    const contained = {
      find: (_: unknown, at: string, sought: string, callerKey: string) => {
        found.push(`${at} ${sought} ${callerKey}`)
        return found.length > 1
      },
    }
    const parts = { ...rest, commits: commits as never, contained, clock: new ManualClock() }
    const states = { of: () => new Map([['s', { bytes, at: 0, live: true }]]) as never, isCut: () => false }
    const broadcast = async (_: unknown, request: unknown) => {
      asked.push(request)
      return new Map()
    }
    const endpoint = stateEndpoint({ ...parts, states, peers: { broadcast } as never })
    const get = async (query: Record<string, string>) => {
      const entries = Object.entries(query).map(([name, value]) => [name, [value]] as const)
      const caller = { key: 'job 5', userKey: 'user 7' }
      const request = { agentId: someAgent.id, caller, query: new Map(entries) } as unknown as OwnRequest
      return JSON.parse(String(Buffer.from((await endpoint.serve(request)).body)))
    }
    t.match(await get({ fresh: 'true', commit }), { commit, sources: [{ polled: { contains: false } }] })
    t.match(await get({ fresh: 'true', commit }), { sources: [{ polled: { commit: head, contains: true } }] })
    t.strictSame(found, Array(2).fill(`${head} ${commit} user 7`))
    for (const query of [{ fresh: 'true' }, { fresh: 'true', commit: 'main' }, { commit }] as Record<
      string,
      string
    >[]) {
      const answer = await get(query)
      t.notOk('commit' in answer || 'contains' in answer.sources[0].polled, JSON.stringify(query))
    }
    t.equal(found.length, 2)
    const asks = { commit, caller: 'user 7' }
    t.match(asked, [asks, asks, { commit: '' }, { commit: '' }, { commit: '' }])
    const peer = statesOfPeer({ ...parts, states }).get(methodPath(Gitops.method.states))
    for (const caller of ['user 8', ''])
      await peer?.(
        toBinary(StatesRequestSchema, create(StatesRequestSchema, { agentId: someAgent.id, commit, caller })),
      )
    t.strictSame(found.slice(2), [`${head} ${commit} user 8`, `${head} ${commit} agent ${someAgent.id}`])
  },
)
