import t from 'tap'
import * as z from 'zod'
import type { AgentId } from '../../../../../src/call/call.ts'
import type { GitlabClient } from '../../../../../src/kas/directory/gitlab/gitlab-client.ts'
import {
  askJobAgents,
  askUserAccess,
  jobGrantOf,
  type LeftOutListener,
  userGrantOf,
} from '../../../../../src/kas/directory/gitlab/grants.ts'
import { askProject } from '../../../../../src/kas/directory/gitlab/project-info.ts'
import { list, readAnswer, readableList, statusError } from '../../../../../src/kas/directory/gitlab/read-answer.ts'

const { signal } = new AbortController()
const turn = { queue: 'users', source: 'one' } as const
const json = (text: string) => ({ mediaType: 'application/json', body: Buffer.from(text) })

/** Returns a client whose GitLab answers `text`. */
function answering(text: string) {
  const ask = async (call: { path: string }, schema: z.ZodType) => readAnswer(schema, json(text), call.path)
  return { ask, send: async () => undefined } as unknown as Pick<GitlabClient, 'ask' | 'send'>
}

t.test('a list is read up to its first member that is wrong', (t) => {
  let read = 0
  const member = z.custom(() => ++read < 3)
  t.throws(() => readAnswer(z.object({ all: list(member) }), json('{"all":[1,2,3,4,5]}'), '/x'), {
    message: /wrong or missing: all\.2$/,
  })
  t.equal(read, 3)
  t.end()
})

type LeftOut = Parameters<LeftOutListener>[0]
type JobParts = Readonly<{ agents?: unknown[]; groups?: unknown[]; user?: object; environment?: object }>

function jobAnswer({ agents = [], groups = [], user = { id: 1, username: 'a' }, environment }: JobParts): string {
  const project = { id: 1, groups }
  return JSON.stringify({ allowed_agents: agents, job: { id: 1 }, pipeline: { id: 1 }, user, project, environment })
}

/** Returns the job in GitLab's answer, and the parts that were left out. */
async function askedJob(parts: JobParts) {
  const leftOut: LeftOut[] = []
  const components = { client: answering(jobAnswer(parts)), onLeftOut: (one: LeftOut) => void leftOut.push(one) }
  return { job: await askJobAgents(components, { jobToken: 'x', turn }, signal), leftOut }
}

const agent = { id: 42, config_project: { id: 1 } }
const long = 'x'.repeat(1025)

t.test('an entry without configuration lets the job act as the agent, as stock kas does', async (t) => {
  for (const entry of [agent, { ...agent, configuration: null }, { ...agent, configuration: {} }]) {
    const { job, leftOut } = await askedJob({ agents: [{ ...agent, id: 41, configuration: { access_as: 1 } }, entry] })
    t.match(jobGrantOf(job, 42n as AgentId), { accessAs: { as: 'agent' }, configProjectId: 1n })
    t.strictSame(leftOut, [])
  }
})

t.test('wrong entries of a job are left out and named once; the others count', async (t) => {
  const wrong = [1, null, {}, { id: 43 }, { ...agent, id: 'x' }, { ...agent, config_project: { id: -1 } }]
  for (const entry of wrong) {
    const { job, leftOut } = await askedJob({ agents: [entry, agent, entry], groups: [entry, { id: 7 }] })
    t.equal(jobGrantOf(job, 42n as AgentId).configProjectId, 1n)
    for (const id of [43n, 41n] as AgentId[]) t.throws(() => jobGrantOf(job, id), { code: 'AGENT_NOT_ALLOWED' })
    t.ok(job.project.groups.some(({ id }) => id === 7n))
    t.match(leftOut[0], { path: '/job/allowed_agents', list: 'allowed_agents', count: 2, first: /^0/ })
    t.ok(leftOut.length <= 2, 'once for each list')
  }
  const { leftOut } = await askedJob({ agents: [agent, { id: 43 }], groups: [{}, { id: 7 }] })
  t.strictSame(leftOut, [
    { path: '/job/allowed_agents', list: 'allowed_agents', count: 1, first: '1.config_project' },
    { path: '/job/allowed_agents', list: 'project.groups', count: 1, first: '0.id' },
  ])
})

t.test('a list with more than 100 wrong entries is refused, and is not read to its end', async (t) => {
  let read = 0
  const member = z.custom(() => ++read === 0)
  t.throws(
    () => readAnswer(z.object({ all: readableList(member) }), json(JSON.stringify({ all: Array(1000).fill(1) })), '/x'),
    {
      message: /wrong or missing: all\.100$/,
    },
  )
  t.equal(read, 101)
  await t.rejects(askedJob({ agents: Array(101).fill(1) }), { message: /missing: allowed_agents\.100$/ })
  t.equal((await askedJob({ agents: Array(100).fill(1) })).leftOut[0]?.count, 100)
})

t.test('names of GitLab have at most 1,024 characters', async (t) => {
  const user = (username: string) => ({ id: 1, username })
  t.equal((await askedJob({ user: user(long.slice(1)) })).job.user.username.length, 1024)
  await t.rejects(askedJob({ user: user(long) }), { message: /missing: user\.username$/ })
  await t.rejects(askedJob({ environment: { slug: long } }), { message: /missing: environment\.slug$/ })
  await t.rejects(askedJob({ environment: { tier: long } }), { message: /missing: environment\.tier$/ })
})

t.test("wrong entries of a user's projects and groups are left out; what is no list is refused", async (t) => {
  const credential = { type: 'personal_access_token', key: 'x' } as const
  const asked = async (access: object, username = 'a') => {
    const { id: _, ...rest } = agent
    const text = JSON.stringify({ agent: { id: 1, ...rest }, user: { id: 1, username }, access_as: { user: access } })
    return await askUserAccess(answering(text), { agentId: 1n as AgentId, credential, turn }, signal)
  }
  const good = { id: 2, roles: ['developer'] }
  for (const wrong of [1, {}, { id: 3, roles: [long] }, { id: 3, roles: [''] }, { id: 3 }, { roles: ['developer'] }]) {
    const leftOut: LeftOut[] = []
    const access = await asked({ projects: [wrong, good], groups: [good, wrong] })
    const granted = [{ id: 2n, roles: ['developer'] }]
    const grant = userGrantOf(access, (one) => leftOut.push(one))
    t.strictSame(grant.accessAs, { as: 'user', projects: granted, groups: granted })
    t.match(leftOut, [
      { path: '/internal/kubernetes/authorize_proxy_user', list: 'access_as.user.projects', count: 1, first: /^0/ },
      { list: 'access_as.user.groups', count: 1, first: /^1/ },
    ])
  }
  const none = () => t.fail('left out')
  for (const odd of [{ projects: 1 }, { projects: Array(101).fill(1) }]) {
    const access = await asked(odd)
    t.throws(() => userGrantOf(access, none), { code: 'IMPERSONATION_UNKNOWN' })
  }
  await t.rejects(asked({}, long), { message: /missing: user\.username$/ })
})

t.test("an agent's and a project's names are bounded", async (t) => {
  const project = (parts: Readonly<{ info?: object; repository?: object; branch?: string }>) =>
    askProject(
      answering(
        JSON.stringify({
          project_id: 1,
          gitaly_info: { address: 'tcp://x:1', ...parts.info },
          gitaly_repository: { storage_name: 's', relative_path: 'p', gl_project_path: 'a/b', ...parts.repository },
          default_branch: parts.branch,
        }),
      ),
      { project: 'a/b', headers: {}, source: 'one' },
      signal,
    )
  for (const key of ['address', 'token'])
    await t.rejects(project({ info: { [key]: long } }), { message: new RegExp(`missing: gitaly_info\\.${key}$`) })
  for (const key of ['storage_name', 'relative_path', 'gl_repository', 'gl_project_path', 'git_object_directory'])
    await t.rejects(project({ repository: { [key]: long } }), {
      message: new RegExp(`missing: gitaly_repository\\.${key}$`),
    })
  await t.rejects(project({ repository: { git_alternate_object_directories: ['a', long] } }), {
    message: /missing: gitaly_repository\.git_alternate_object_directories\.1$/,
  })
  await t.rejects(project({ branch: long }), { message: /missing: default_branch$/ })
  const many = Object.fromEntries(Array.from({ length: 1001 }, (_, i) => [`gitaly-feature-${i}`, 'true']))
  for (const features of [{ [long]: 'true' }, { x: long }, many])
    await t.rejects(project({ info: { features } }), { message: /missing: gitaly_info\.features$/ })
  t.equal((await project({ branch: long.slice(1) })).coordinates.defaultBranch.length, 1024)
})

t.test('features are texts, and an error holds none of their names', async (t) => {
  const projectOf = (features: string) =>
    `{"project_id":1,"gitaly_info":{"address":"tcp://x:1","features":${features}},"gitaly_repository":{"storage_name":"s","relative_path":"p","gl_project_path":"a/b"}}`
  const asked = (features: string) =>
    askProject(answering(projectOf(features)), { project: 'a/b', headers: {}, source: 'one' }, signal)
  t.strictSame((await asked('{"gitaly-feature-x":"true"}')).coordinates.features, { 'gitaly-feature-x': 'true' })
  t.strictSame((await asked('null')).coordinates.features, {})
  for (const features of ['{"\\u001b]52;c;eA==":1}', '[]', '["x"]', '1', '"x"', '{"a":{}}'])
    await t.rejects(asked(features), { message: /wrong or missing: gitaly_info\.features$/ }, features)
})

t.test('an answer that is nested more than 1,000 deep is not parsed', (t) => {
  const nested = (depth: number) => `{"x":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)},"message":"no"}`
  const read = (depth: number) => readAnswer(z.looseObject({}), json(nested(depth)), '/x')
  t.match(read(1000), { message: 'no' })
  for (const depth of [1001, 100_000])
    t.throws(() => read(depth), { code: 'GITLAB_ANSWER_INVALID', message: /nested more than 1000 deep$/ })
  const told = (depth: number) => statusError({ status: 403, ...json(nested(depth)) }, '/x').spec
  t.match(told(1000), { told: 'no' })
  t.notHas(told(1001), { told: 'no' })
  t.end()
})
