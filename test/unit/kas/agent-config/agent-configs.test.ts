import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import type { Agent } from '../../../../src/kas/agent.ts'
import { parseAgentConfiguration } from '../../../../src/kas/agent-config/agent-config-file.ts'
import type { AgentConfiguration } from '../../../../src/kas/agent-config/agent-config-reader.ts'
import { AgentConfigs } from '../../../../src/kas/agent-config/agent-configs.ts'
import { type BlockSchema, blockIn } from '../../../../src/kas/agent-config/module-schema.ts'
import { viewsFile } from '../../../../src/kas/modules/views/schema.ts'
import type { CommitId, Reading, Repositories } from '../../../../src/kas/repositories/repositories.ts'
import type { Trees } from '../../../../src/kas/repositories/tree.ts'
import { KasError } from '../../../../src/lib/errors.ts'
import { echoBlock, echoSchemas } from '../../../contract/modules/echo/module-schemas.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { ManualClock, settle } from '../../../support/manual-clock.ts'

const agent: Agent = { id: 42n as AgentId, name: 'prod', project: { id: 1n, path: 'a/b' } }
const signal = new AbortController().signal
const settled = () => settle(5)

/** A repository; the test sets its content. */
class FakeRepositories implements Repositories, Pick<Trees, 'mayHave'> {
  /** content of gitops.yaml */
  gitops: string | undefined
  commit: string | undefined = 'one'
  text: string | undefined = 'ci_access: { projects: [{ id: x }] }'
  /** texts by agent, in place of `text` */
  readonly texts = new Map<string, string>()
  failure: KasError | undefined
  fileFailure: KasError | undefined
  reads: string[] = []
  /** contents of the files that were read */
  readonly given: WeakRef<Uint8Array>[] = []
  readonly listeners = new Set<() => void>()
  seen = 7
  /** agents whose read was hurried */
  readonly hurried: string[] = []

  hurry({ id }: Reading): void {
    this.hurried.push(String(id))
  }

  lastPoll(): undefined {}

  seenAt(): number {
    return this.seen
  }

  async head(): Promise<CommitId | undefined> {
    if (this.failure) throw this.failure
    return this.commit as CommitId | undefined
  }

  async file({ name }: Agent, commit: CommitId, path: string, maxBytes: number): Promise<Uint8Array | undefined> {
    if (path.endsWith('/gitops.yaml')) return this.gitops === undefined ? undefined : Buffer.from(this.gitops)
    this.reads.push(`${commit} ${path} ${maxBytes}`)
    if (this.fileFailure) throw this.fileFailure
    const text = this.texts.get(name) ?? this.text
    if (text === undefined) return undefined
    const bytes = new TextEncoder().encode(text)
    this.given.push(new WeakRef(bytes))
    return bytes
  }

  async mayHave(_agent: Reading, _commit: CommitId, path: string): Promise<boolean> {
    return path.endsWith('/gitops.yaml') && this.gitops !== undefined
  }

  async pollAfterNotice(): Promise<void> {}

  async pollAndReport(): Promise<void> {}

  onMove(_agent: Agent, listener: () => void): () => void {
    this.listeners.add(listener)
    return () => this.listeners.delete(listener)
  }

  async move(commit: string | undefined, text?: string): Promise<void> {
    this.commit = commit
    this.text = text
    for (const listener of this.listeners) listener()
    await settled()
  }
}

async function start(t: Test, options = {}) {
  const repositories = new FakeRepositories()
  const clock = new ManualClock()
  const { log, lines } = capturedLog()
  const unreadable: string[] = []
  const onUnreadable = ({ name }: Agent) => void unreadable.push(name)
  const limits: string[] = []
  const metrics = { limited: (by: string) => void limits.push(by) }
  const configurations = new AgentConfigs(
    { schemas: echoSchemas, repositories, log, clock, metrics, onUnreadable },
    options,
  )
  t.teardown(() => configurations.stop())
  await configurations.start()
  return { repositories, clock, configurations, lines, unreadable, limits }
}
const isIn = (value: Awaited<ReturnType<AgentConfigs['current']>>) => [
  ...(value?.configuration.ciAccess.projects.keys() ?? []),
]

t.test('a commit that changes nothing of an agent costs nothing, and so does an agent without a file', async (t) => {
  const { configurations, repositories } = await start(t)
  const first = await configurations.current(agent, signal)
  await repositories.move('two', repositories.text)
  const second = await configurations.current(agent, signal)
  t.equal(second?.commit, 'two')
  t.equal(second?.configuration, first?.configuration, 'it is not parsed again')
  repositories.gitops = 'gitops: { manifest_projects: [] }'
  await repositories.move('three', repositories.text)
  const third = await configurations.current(agent, signal)
  t.not(third?.configuration, first?.configuration, 'of either file')
  t.ok(third?.blocks?.has('gitops'))
  repositories.gitops = undefined
  await repositories.move('four', undefined)
  const absent = await configurations.current(agent, signal)
  t.match(absent, { commit: 'four', isAbsent: true })
  t.same(isIn(absent), [])
  const another = await configurations.current({ ...agent, id: 43n as AgentId, name: 'other' }, signal)
  t.equal(another?.configuration, absent?.configuration, 'the same for all')
})

t.test('a first read that somebody waits for waits less, one of an agent that has its commit does not', async (t) => {
  const { configurations, repositories } = await start(t)
  const ask = (id: bigint, isWanted?: boolean) =>
    configurations.newest({ ...agent, id: id as AgentId }, signal, isWanted)
  await Promise.all([ask(1n, false), ask(2n)])
  t.same(repositories.hurried, ['2'])
  await Promise.all([ask(3n, false), ask(3n), configurations.current({ ...agent, id: 4n as AgentId }, signal)])
  t.same(repositories.hurried, ['2', '3', '4'], 'also one that runs, and one that decides on access')
  await Promise.all([ask(1n), ask(2n)])
  t.same(repositories.hurried, ['2', '3', '4'], 'what was read is there')
})

t.test('a configuration is read once, however many ask, and again when the branch moves', async (t) => {
  const { configurations, repositories } = await start(t)
  const [one, two] = await Promise.all([configurations.current(agent, signal), configurations.newest(agent, signal)])
  t.equal(one, two)
  t.equal(one?.commit, 'one')
  t.equal(one?.seenAt, 7, 'when the branch was looked at, not when the file was read')
  await configurations.current(agent, signal)
  t.same(repositories.reads, ['one .gitlab/agents/prod/config.yaml 131072'])
  let told = 0
  t.teardown(configurations.onChange(agent, () => told++))
  await repositories.move('two', 'ci_access: { projects: [{ id: y }] }')
  t.equal(told, 1)
  t.same(isIn(await configurations.current(agent, signal)), ['y'])
  await repositories.move('three')
  t.same(isIn(await configurations.current(agent, signal)), [], 'an absent file is an empty configuration')
  t.equal((await configurations.newest(agent, signal))?.commit, 'three')
})

t.test('a failed read keeps the last good one for access, and the agent is told of its mistake', async (t) => {
  const { configurations, repositories, lines } = await start(t)
  await configurations.current(agent, signal)
  let told = 0
  t.teardown(configurations.onChange(agent, () => told++))
  await repositories.move('two', 'ci_access: [')
  t.equal(told, 1)
  await t.rejects(configurations.newest(agent, signal), { code: 'CONFIGURATION_INVALID' })
  t.same(isIn(await configurations.current(agent, signal)), ['x'])
  t.ok(lines.some((line) => line.msg === 'Agent configuration cannot be read, the last good one decides on access'))
  repositories.failure = new KasError({ code: 'REF_NOT_FOUND', ref: 'HEAD' })
  await repositories.move('two')
  await t.rejects(configurations.newest(agent, signal), { code: 'REF_NOT_FOUND' })
  t.same(isIn(await configurations.current(agent, signal)), ['x'])
})

t.test('without a good one the failure is told, never an empty configuration; the read is tried again', async (t) => {
  const { configurations, repositories, clock } = await start(t, { retryMs: [5_000, 8_000] })
  repositories.fileFailure = new KasError({ code: 'REPOSITORY_FAILED', detail: 'gone' })
  await t.rejects(configurations.current(agent, signal), { code: 'REPOSITORY_FAILED' })
  let told = 0
  t.teardown(configurations.onChange(agent, () => told++))
  clock.advance(5_000)
  await settled()
  repositories.fileFailure = undefined
  clock.advance(7_999)
  await settled()
  t.equal(told, 0, 'later each time')
  clock.advance(1)
  await settled()
  t.equal(told, 1)
  t.same(isIn(await configurations.current(agent, signal)), ['x'])
})

t.test('the third failure in a row is told, and those after it; a fault of the file is none', async (t) => {
  const { configurations, repositories, clock, unreadable } = await start(t, { retryMs: [5_000, 5_000] })
  repositories.fileFailure = new KasError({ code: 'REPOSITORY_FAILED', detail: 'gone' })
  await t.rejects(configurations.current(agent, signal), { code: 'REPOSITORY_FAILED' })
  for (const expected of [0, 1, 2]) {
    clock.advance(5_000)
    await settled()
    t.equal(unreadable.length, expected)
  }
  repositories.fileFailure = undefined
  for (const text of ['ci_access: [', '', 'ci_access: [', 'ci_access: {', 'x: [']) await repositories.move(text, text)
  t.same(unreadable, ['prod', 'prod'])
})

t.test('an empty repository has no configuration', async (t) => {
  const { configurations, repositories } = await start(t)
  repositories.commit = undefined
  t.equal(await configurations.current(agent, signal), undefined)
  await repositories.move('one', 'ci_access: { projects: [{ id: x }] }')
  t.same(isIn(await configurations.current(agent, signal)), ['x'])
})

t.test('a key that could widen access is told as an error, others as warnings', async (t) => {
  const { configurations, repositories, lines } = await start(t)
  repositories.text = 'ci_access: { projects: [{ id: x, enviroments: [y] }] }\nfluks: {}'
  await configurations.current(agent, signal)
  t.match(lines, [
    { level: 'error', key: 'ci_access.projects[0].enviroments', hint: 'ci_access.projects[0].environments' },
    { level: 'warn', key: 'fluks', hint: 'flux' },
  ])
})

t.test('what nobody uses is dropped: after a while, and when there are too many', async (t) => {
  const { configurations, repositories, clock } = await start(t, { idleMs: 1000, maxAgents: 2 })
  const named = (name: string): Agent => ({ ...agent, name })
  await configurations.current(named('a'), signal)
  t.teardown(configurations.onChange(named('b'), () => undefined))
  await configurations.current(named('b'), signal)
  t.equal(repositories.listeners.size, 2)
  await configurations.current(named('c'), signal)
  t.equal(repositories.listeners.size, 2, 'a made room')
  clock.advance(1000)
  clock.advance(1000)
  t.equal(repositories.listeners.size, 1, 'b is followed, c was not asked for')
})

t.test('those that are followed are known, once they are read and as long as somebody follows them', async (t) => {
  const { configurations } = await start(t)
  const named = (id: bigint): Agent => ({ ...agent, id: id as AgentId, name: `a${id}` })
  const ids = () => configurations.allFollowed().map(({ agent: { id } }) => id)
  const ends = [1n, 1n, 2n].map((id) => configurations.onChange(named(id), () => undefined))
  await configurations.current(named(1n), signal)
  await configurations.current(named(3n), signal)
  t.same(ids(), [1n], '2 is not read, 3 not followed')
  await configurations.current(named(2n), signal)
  t.same(ids(), [1n, 2n])
  ends[0]?.()
  t.same(ids(), [1n, 2n], 'its other pod')
  ends[1]?.()
  t.same(ids(), [2n])
})

t.test('stop leaves neither timer nor listener', async (t) => {
  const { configurations, repositories, clock } = await start(t)
  repositories.failure = new KasError({ code: 'REPOSITORY_FAILED', detail: 'x' })
  await t.rejects(configurations.current(agent, signal))
  await configurations.stop()
  t.equal(clock.pending, 0)
  t.equal(repositories.listeners.size, 0)
  await t.rejects(configurations.current(agent, signal), { code: 'SHUTTING_DOWN' })
})

const dense = `ci_access: {projects: [{id: a, environments: [${'a,'.repeat(39_000)}]}]}`
const ofProject = (id: bigint, name: string): Agent => ({
  id: (id * 100n) as AgentId,
  name,
  project: { id, path: 'a/b' },
})
/** CPU time of this thread, ms; other programs do not count. */
const cpuMs = () => {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1000
}

t.test('a file that takes long stalls no event loop, and the files of others are read meanwhile', async (t) => {
  const { configurations, repositories } = await start(t)
  const before = cpuMs()
  parseAgentConfiguration('c.yaml', Buffer.from(dense))
  const onThisThread = cpuMs() - before
  repositories.texts.set('evil', dense)
  const began = cpuMs()
  let isOver = false
  const evil = configurations.current(ofProject(2n, 'evil'), signal).finally(() => {
    isOver = true
  })
  t.same(isIn(await configurations.current(agent, signal)), ['x'])
  t.notOk(isOver)
  t.same(isIn(await evil), ['a'])
  const meanwhile = cpuMs() - began // no turn of the event loop is longer
  t.ok(meanwhile < onThisThread / 3, `${meanwhile} ms in place of ${onThisThread} ms`)
})

t.test('who waits for the turn of its project keeps no file meanwhile', async (t) => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const { configurations, repositories, clock } = await start(t)
  const evil = ofProject(2n, 'evil')
  repositories.texts.set('evil', dense)
  const first = configurations.current(evil, signal) // this read has the turn of the project
  await settled()
  const others = Array.from({ length: 20 }, (_, i) =>
    configurations.current({ ...evil, id: BigInt(100 + i) as AgentId }, signal),
  )
  await settled()
  const waiting = repositories.given.slice(1)
  t.equal(waiting.length, 20)
  collect()
  t.equal(waiting.filter((bytes) => bytes.deref()).length, 0)
  repositories.texts.delete('evil')
  await first
  await settled()
  clock.advance(3_600_000) // the project has rested
  t.same((await Promise.all(others)).map(isIn), Array(20).fill(['x']), 'and is read anew')
})

t.test('a tenant who pushes on and on gets a tenth of the time, and his newest push counts', async (t) => {
  const { configurations, repositories, clock, limits } = await start(t)
  const evil = ofProject(2n, 'evil')
  repositories.texts.set('evil', dense)
  await configurations.current(evil, signal)
  const moved = Promise.withResolvers<void>()
  t.teardown(configurations.onChange(evil, () => moved.resolve()))
  for (let i = 0; i < 50; i++) {
    repositories.texts.set('evil', `ci_access: { projects: [{ id: p${i} }] }`)
    await repositories.move(String(i), 'ci_access: { projects: [{ id: y }] }')
  }
  t.same(isIn(await configurations.current(evil, signal)), ['a'], 'it rests')
  t.same(isIn(await configurations.current(agent, signal)), ['y'], 'the others do not')
  const reads = repositories.reads.length
  clock.advance(60_000)
  await moved.promise
  await settled()
  t.same(isIn(await configurations.current(evil, signal)), ['p49'])
  t.same(limits, ['turn'])
  t.ok(repositories.reads.length <= reads + 2, 'what was pushed meanwhile is not read one by one')
})

t.test('stop while a long file is read', async (t) => {
  const { configurations, repositories, clock } = await start(t)
  repositories.text = dense
  const read = configurations.current(agent, signal)
  const waiting = configurations.current({ ...agent, name: 'other' }, signal)
  const refused = Promise.all([read, waiting].map((one) => t.rejects(one, { code: 'SHUTTING_DOWN' })))
  await settled()
  await configurations.stop()
  await refused
  t.equal(clock.pending, 0)
})

async function withEcho(t: Test) {
  const started = await start(t)
  const echo = async () => {
    const newest = await started.configurations.refreshed(agent, signal) // when one of the threads has read it
    return blockIn(newest, echoBlock)
  }
  return { ...started, echo }
}

t.test("a module's block is read by its schema, and kept as it stands for agentk", async (t) => {
  const { configurations, repositories, lines, echo } = await withEcho(t)
  t.equal(await echo(), undefined, 'the file has none')
  t.strictSame([...((await configurations.newest(agent, signal))?.blocks?.keys() ?? [])], ['gitops'])
  const long = `# ${'x'.repeat(5000)}` // long enough that the other thread reads it
  for (const [i, comment] of ['', long].entries()) {
    await repositories.move(`read ${i}`, `echo: { words: [a], wrds: 1, none: }\n${comment}`)
    t.same(await echo(), { words: ['a'] })
    const { blocks, configuration } = (await configurations.newest(agent, signal)) as AgentConfiguration
    t.strictSame(
      Array.from(blocks ?? [], ([key, { json }]) => [key, JSON.parse(json)]),
      [
        ['echo', { words: ['a'] }],
        ['gitops', {}],
      ],
    )
    t.strictSame(configuration.warnings, [{ kind: 'unknown', key: 'echo.wrds', hint: 'echo.words' }])
    t.match(configuration.raw, { echo: { wrds: 1, none: null } }, 'GitLab is told all')
  }
  t.equal(lines.filter(({ key }) => key === 'echo.wrds').length, 2)
})

t.test("a module's block that is wrong, or too long, makes the file invalid", async (t) => {
  const { configurations, repositories, echo } = await withEcho(t)
  const file = '.gitlab/agents/prod/config.yaml'
  await configurations.current(agent, signal)
  const wrong = [
    ['echo: { words: [1] }', `${file}: line 2: echo.words[0]: found 1, allowed: a text`],
    ['echo: 5', `${file}: line 2: echo: found 5, allowed: a block of keys`],
    [`echo: { words: [${'a'.repeat(16 * 1024)}] }`, `${file}: echo: more than 16384 bytes as JSON`],
  ] as const
  for (const [i, [text, detail]] of wrong.entries()) {
    await repositories.move(`wrong ${i}`, `ci_access: { projects: [{ id: z }] }\n${text}`)
    await t.rejects(
      echo(),
      { code: 'CONFIGURATION_INVALID', message: new RegExp(RegExp.escape(detail)) },
      text.slice(0, 30),
    )
  }
  t.same(isIn(await configurations.current(agent, signal)), ['x'], 'the last good one decides on access')
})

t.test('a block has one owner', async (t) => {
  const withBlocks =
    (...blocks: BlockSchema[]) =>
    () =>
      parseAgentConfiguration(
        'c.yaml',
        new Uint8Array(),
        blocks.map((block) => ({ block })),
      )
  t.throws(withBlocks(echoBlock, echoBlock), /the block echo has an owner/)
  t.throws(withBlocks({ ...echoBlock, key: 'flux' }), /the block flux has an owner/)
})

t.test('a file of a module is read at the commit that is asked for, each time', async (t) => {
  const { configurations, repositories } = await start(t)
  repositories.text = 'follow: { namespaces: [shop] }\nverdict: kstatus\n'
  const views = () => configurations.file(agent, 'two' as CommitId, viewsFile, signal)
  t.equal(await views(), '{"follow":{"namespaces":["shop"]},"verdict":"kstatus"}')
  t.strictSame(repositories.reads, ['two .gitlab/agents/prod/views.yaml 131072'])
  repositories.text = `# ${'x'.repeat(5000)}\nverdict: argo\n`
  t.equal(await views(), '{"verdict":"argo"}', 'in a thread, as it is long')
  repositories.text = undefined
  t.equal(await views(), undefined, 'there is none')
  repositories.text = 'verdict: best'
  await t.rejects(views(), { code: 'CONFIGURATION_INVALID', message: /views.yaml: line 1: verdict: found "best"/ })
  repositories.fileFailure = new KasError({ code: 'REPOSITORY_FAILED', detail: 'gone' })
  await t.rejects(views(), { code: 'REPOSITORY_FAILED' })
  await configurations.stop()
  await t.rejects(views(), { code: 'SHUTTING_DOWN' })
})

t.test(
  'the block gitops: of either file; without a file there is none, a file without one has an empty one',
  async (t) => {
    const { repositories, configurations } = await start(t)
    const block = async (commit: string, text: string | undefined, gitops: string | undefined) => {
      repositories.gitops = gitops
      await repositories.move(commit, text)
      await settled()
      const read = await configurations.newest(agent, signal).catch((error: KasError) => error)
      return read instanceof KasError ? read.message : read?.blocks?.get('gitops')?.json
    }
    const sources = '{"manifest_projects":[{"id":"a/b","name":"x"}]}'
    await configurations.newest(agent, signal)
    t.equal(await block('1', undefined, undefined), undefined)
    t.equal(await block('2', 'ci_access: {}', undefined), '{}')
    t.equal(await block('3', `gitops: ${sources}`, undefined), sources)
    t.equal(await block('4', 'ci_access: {}', `gitops: ${sources}`), sources)
    t.equal(await block('5', undefined, `gitops: ${sources}`), sources)
    t.equal(await block('6', undefined, '# nothing'), '{}')
    const own = '.gitlab/agents/prod'
    t.equal(
      await block('7', `gitops: ${sources}`, `gitops: ${sources}`),
      `Config: gitops stands in ${own}/config.yaml and in ${own}/gitops.yaml: allowed in one`,
    )
    t.match(await block('8', '', 'manifest_projects: []'), `${own}/gitops.yaml: line 1: manifest_projects: `)
    t.match(
      await block('9', '', 'gitops: { manifest_projects: [{ nam: x }] }'),
      /gitops\.yaml: line 1: .*nam: .*name\?/,
    )
  },
)

t.test('a commit that leaves the files as they are does not make them newer', async (t) => {
  const { configurations, repositories, clock } = await start(t)
  const since = async () => {
    const { commit, since } = (await configurations.newest(agent, signal)) ?? {}
    return [commit, since]
  }
  t.teardown(configurations.onChange(agent, () => undefined))
  const began = clock.now()
  const first = 'ci_access: { projects: [{ id: x }] }'
  await repositories.move('one', first)
  t.same(await since(), ['one', began])
  clock.advance(1000)
  await repositories.move('two', first)
  t.same(await since(), ['two', began])
  await repositories.move('three', 'ci_access: { projects: [{ id: y }] }')
  t.same(await since(), ['three', began + 1000])
  for (const commit of ['four', 'five']) {
    clock.advance(1000)
    await repositories.move(commit)
    t.same(await since(), [commit, began + 2000], 'there is none')
  }
})
