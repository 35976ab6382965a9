import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { AgentId } from '../../../src/call/call.ts'
import type { Agent } from '../../../src/kas/agent.ts'
import { parseAgentConfiguration } from '../../../src/kas/agent-config/agent-config-file.ts'
import type { AgentConfiguration } from '../../../src/kas/agent-config/agent-config-reader.ts'
import { DirectoryFile } from '../../../src/kas/directory/file/directory-file.ts'
import { FileDirectory } from '../../../src/kas/directory/file/file-directory.ts'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import { KasError } from '../../../src/lib/errors.ts'
import { tokenHash } from '../../../src/lib/token-hash.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { ManualClock } from '../../support/manual-clock.ts'
import { directorySuite, rejects } from './directory-suite.ts'

const tokens = {
  agent: 'agent-token',
  ada: 'ada-token',
  bob: 'bob-token',
  jobs: { clusters: 'job-1', web: 'job-2', other: 'job-3' },
}
const sha256 = (token: string) => tokenHash(token)
const tree = {
  projects: [
    { id: 1, path: 'platform/clusters', groups: [{ id: 7, path: 'platform' }] },
    { id: 2, path: 'apps/web', groups: [{ id: 8, path: 'apps' }] },
    { id: 3, path: 'other/thing', groups: [{ id: 9, path: 'other' }] },
  ],
  agents: [{ id: 42, name: 'prod', project: 1, tokens: [{ sha256: sha256(tokens.agent), expires: '2027-01-01' }] }],
  users: [
    {
      id: 5,
      username: 'ada',
      tokens: [{ sha256: sha256(tokens.ada), expires: '2027-01-01' }],
      roles: { projects: { 1: ['maintainer'] } },
    },
    { id: 6, username: 'bob', tokens: [{ sha256: sha256(tokens.bob) }], roles: { projects: { 1: ['reporter'] } } },
  ],
  ci_tokens: [
    { sha256: sha256(tokens.jobs.clusters), user: 5, project: 1, job: 900, pipeline: 90 },
    {
      sha256: sha256(tokens.jobs.web),
      user: 5,
      project: 2,
      job: 901,
      pipeline: 91,
      environment: { slug: 'prod-eu', tier: 'production' },
      expires: '2027-01-01',
    },
    { sha256: sha256(tokens.jobs.other), user: 5, project: 3, job: 902, pipeline: 92 },
  ],
}

async function start(t: Test, configuration: string) {
  const path = join(t.testdir({ 'directory.yaml': JSON.stringify(tree) }), 'directory.yaml')
  const { log, lines } = capturedLog()
  const clock = new ManualClock(Date.parse('2026-12-31T23:59:00Z')) // shortly before the tokens expire
  const directoryFile = new DirectoryFile({ log, clock }, { file: path })
  t.teardown(() => directoryFile.stop())
  await directoryFile.start()
  const answers = { text: configuration, error: undefined as Error | undefined }
  const current = async (_agent: Agent): Promise<AgentConfiguration | undefined> => {
    if (answers.error) throw answers.error
    return {
      commit: 'c'.repeat(40) as CommitId,
      configuration: parseAgentConfiguration('config.yaml', Buffer.from(answers.text)),
      seenAt: 0,
      since: 0,
    }
  }
  const readAnew: ((agent: Agent) => void)[] = []
  const onAnyChange = (listener: (agent: Agent) => void) => {
    readAnew.push(listener)
    return () => void readAnew.splice(readAnew.indexOf(listener), 1)
  }
  const directory = new FileDirectory({ directoryFile, configurations: { current, onAnyChange }, log, clock })
  return { directory, tokens, clock, directoryFile, path, answers, lines, readAnew }
}

directorySuite(t, 'file', start)

const signal = new AbortController().signal
const agentId = 42n as AgentId
const pat = (key: string) => ({ type: 'personal_access_token', key }) as const

t.test('file: a token is void from the moment it expires', async (t) => {
  const { directory, clock } = await start(
    t,
    'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }',
  )
  const told: unknown[] = []
  t.teardown(directory.onChange((agentIds) => told.push(agentIds)))
  clock.advance(Date.parse('2027-01-01T00:00:00Z') - clock.now() - 1)
  await directory.agentByToken(tokens.agent, signal)
  await directory.grantUser(agentId, pat(tokens.ada), signal)
  clock.advance(1)
  t.same(told, [new Set([agentId])], 'it concerns that agent alone')
  await rejects(t, directory.agentByToken(tokens.agent, signal), 'UNAUTHENTICATED')
  await rejects(t, directory.grantUser(agentId, pat(tokens.ada), signal), 'USER_UNAUTHORIZED')
  await rejects(t, directory.grantJob(agentId, tokens.jobs.web, signal), 'JOB_TOKEN_UNAUTHORIZED')
})

t.test('file: an agent reads its own project and those of its `reads`, by path or number', async (t) => {
  const { directory, directoryFile, path } = await start(t, '')
  const read = async (project: string) => (await directory.readableProject(tokens.agent, project, signal))?.id
  t.strictSame([await read('Platform/Clusters'), await read('1'), await read('apps/web')], [1n, 1n, undefined])
  t.notOk(await directory.readsProject(tokens.agent, 'apps/web', signal))
  await writeFile(path, JSON.stringify({ ...tree, agents: [{ ...tree.agents[0], reads: [2] }] }))
  await directoryFile.read()
  t.strictSame(
    [await read('apps/web'), await read('2'), await read('other/thing'), await read('none')],
    [2n, 2n, undefined, undefined],
  )
  t.ok(await directory.readsProject(tokens.agent, 'apps/web', signal), 'of its pushes it hears too')
  await rejects(t, directory.readableProject('none', 'apps/web', signal), 'UNAUTHENTICATED')
})

t.test('file: a change applies to the next question, and listeners are told', async (t) => {
  const { directory, directoryFile, path } = await start(t, '')
  let told = 0
  t.teardown(directory.onChange(() => told++))
  await writeFile(path, JSON.stringify({ ...tree, agents: [{ ...tree.agents[0], tokens: [] }] }))
  await directoryFile.read()
  t.equal(told, 1)
  await rejects(t, directory.agentByToken(tokens.agent, signal), 'UNAUTHENTICATED')
})

t.test('file: those who ask about callers hear of each change that may concern them', async (t) => {
  const { directory, directoryFile, path, clock, readAnew } = await start(t, '')
  const told: unknown[] = []
  const undo = directory.onGrantsChange((agentIds) => told.push(agentIds))
  await writeFile(path, JSON.stringify({ ...tree, users: tree.users.slice(0, 1) }))
  await directoryFile.read()
  t.same(told.splice(0), [undefined], 'of the file: all')
  const [agent] = [...(directoryFile.contents?.agents.values() ?? [])] as [Agent]
  for (const listener of readAnew) listener(agent)
  t.same(told.splice(0), [new Set([agentId])], "of an agent's configuration: callers of that agent")
  clock.advance(Date.parse('2027-01-01T00:00:00Z') - clock.now())
  t.same(told.splice(0), [undefined], 'of the token of a job that has expired: all, with those of users')
  undo()
  t.same(readAnew, [])
})

t.test('file: a first read that failed gives no access, and tells that it is no fault of the token', async (t) => {
  const { log } = capturedLog()
  const directoryFile = new DirectoryFile({ log }, { file: join(t.testdir({}), 'none.yaml') })
  const configurations = { current: async () => undefined, onAnyChange: () => () => undefined }
  const directory = new FileDirectory({ directoryFile, configurations, log })
  await rejects(t, directory.agentByToken(tokens.agent, signal), 'DIRECTORY_UNAVAILABLE')
  await rejects(t, directory.grantJob(agentId, tokens.jobs.web, signal), 'JOB_AGENTS_FAILED')
  await rejects(t, directory.grantUser(agentId, pat(tokens.ada), signal), 'USER_FAILED')
})

t.test('file: a configuration that was never readable lets nobody in', async (t) => {
  const { directory, answers } = await start(t, '')
  answers.error = new KasError({ code: 'REPOSITORY_FAILED', detail: 'gone' })
  await rejects(t, directory.grantJob(agentId, tokens.jobs.clusters, signal), 'JOB_AGENTS_FAILED')
  await rejects(t, directory.grantUser(agentId, pat(tokens.ada), signal), 'USER_FAILED')
})

t.test('file: who a user is is said whatever refuses him', async (t) => {
  const { directory, clock } = await start(
    t,
    'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }',
  )
  const known: unknown[] = []
  const asked = (id: bigint, token: string) =>
    rejects(
      t,
      directory.grantUser(id as AgentId, pat(token), signal, { onKnown: ({ user }) => known.push(user.username) }),
      'USER_UNAUTHORIZED',
    )
  await asked(agentId, tokens.bob)
  await asked(7n, tokens.ada)
  t.strictSame(known.splice(0), ['bob', 'ada'], 'by user_access, and by an agent that is not there')
  clock.advance(Date.parse('2027-01-01T00:00:00Z') - clock.now())
  await asked(agentId, tokens.ada)
  t.strictSame(known, [], 'a token that has ended is of nobody')
})

t.test('file: browser sessions are unknown here', async (t) => {
  const { directory } = await start(
    t,
    'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }] }',
  )
  const cookie = { type: 'session_cookie', key: tokens.ada, csrfToken: 'x' } as const
  await rejects(t, directory.grantUser(agentId, cookie, signal), 'USER_UNAUTHORIZED')
})

t.test('file: what may be a restriction that kas does not know refuses, and says so', async (t) => {
  for (const [key, value] of [
    ['enviroments', '[staging]'],
    ['protected_branches_only', 'true'],
  ]) {
    const { directory, lines } = await start(t, `ci_access: { projects: [{ id: apps/web, ${key}: ${value} }] }`)
    await rejects(t, directory.grantJob(agentId, tokens.jobs.web, signal), 'AGENT_NOT_ALLOWED')
    t.ok(lines.some((line) => line.level === 'warn' && String(line.reason).includes(String(key))))
  }
  const { directory } = await start(t, 'ci_access: { projects: [{ id: apps/web, protected_branches_only: false }] }')
  t.same((await directory.grantJob(agentId, tokens.jobs.web, signal)).accessAs, { as: 'agent' })
})

t.test('file: a developer of a project is known by its number, by a role in it or in a group above', async (t) => {
  const { directory, path, directoryFile } = await start(t, '')
  t.equal(directory.isDeveloper(5n, 1n), true)
  t.equal(directory.isDeveloper(6n, 1n), false, 'a reporter is none')
  t.equal(directory.isDeveloper(5n, 2n), false, 'of another project')
  t.equal(directory.isDeveloper(5n, 99n), false, 'of no project')
  t.equal(directory.isDeveloper(99n, 1n), false, 'no user')
  const [ada, bob] = tree.users
  await writeFile(path, JSON.stringify({ ...tree, users: [ada, { ...bob, roles: { groups: { 8: ['developer'] } } }] }))
  await directoryFile.read()
  t.equal(directory.isDeveloper(6n, 2n), true)
})
