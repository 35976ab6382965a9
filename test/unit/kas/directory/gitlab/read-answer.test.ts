import t from 'tap'
import * as z from 'zod'
import type { GitlabClient } from '../../../../../src/kas/directory/gitlab/gitlab-client.ts'
import { askJobAgents, askUserAccess, userGrantOf } from '../../../../../src/kas/directory/gitlab/grants.ts'
import { askProject } from '../../../../../src/kas/directory/gitlab/project-info.ts'
import { list, readAnswer, statusError } from '../../../../../src/kas/directory/gitlab/read-answer.ts'

const { signal } = new AbortController()
const turn = { queue: 'users', source: 'one' } as const
const json = (text: string) => ({ mediaType: 'application/json', body: Buffer.from(text) })

/** A client to which GitLab answers `text`. */
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

t.test('answers with lists of wrong members name the first alone', async (t) => {
  const many = (member: string) => `[${Array(100).fill(member).join(',')}]`
  const jobOf = (agents: string, groups: string) =>
    `{"allowed_agents":${agents},"job":{"id":1},"pipeline":{"id":1},"user":{"id":1,"username":"a"},"project":{"id":1,"groups":${groups}}}`
  const wrong = (text: string) => askJobAgents(answering(text), { jobToken: 'x', turn }, signal)
  await t.rejects(wrong(jobOf(many('1'), '[]')), { message: /missing: allowed_agents\.0$/ })
  await t.rejects(wrong(jobOf(many('{"id":1,"configuration":{}}'), '[]')), {
    message: /missing: allowed_agents\.0\.config_project$/,
  })
  await t.rejects(wrong(jobOf('[]', many('{}'))), { message: /missing: project\.groups\.0\.id$/ })

  const credential = { type: 'personal_access_token', key: 'x' } as const
  const userOf = (projects: string) =>
    `{"agent":{"id":1,"config_project":{"id":1}},"user":{"id":1,"username":"a"},"access_as":{"user":{"projects":${projects}}}}`
  const asked = (text: string) => askUserAccess(answering(text), { agentId: 1n as never, credential, turn }, signal)
  const access = await asked(userOf('[{"id":2,"roles":["developer"]}]'))
  t.match(userGrantOf(access), { accessAs: { as: 'user', projects: [{ id: 2n, roles: ['developer'] }], groups: [] } })
  const odd = await asked(userOf(many('1')))
  t.throws(() => userGrantOf(odd), { code: 'IMPERSONATION_UNKNOWN' })
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
