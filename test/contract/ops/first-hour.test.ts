import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer, type RequestListener } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import type { AgentId } from '../../../src/call/call.ts'
import { parseAgentConfiguration } from '../../../src/kas/agent-config/agent-config-file.ts'
import type { AgentConfiguration } from '../../../src/kas/agent-config/agent-config-reader.ts'
import { runCli } from '../../../src/kas/cli/cli.ts'
import { DirectoryFile } from '../../../src/kas/directory/file/directory-file.ts'
import { FileDirectory } from '../../../src/kas/directory/file/file-directory.ts'
import type { CommitId } from '../../../src/kas/repositories/repositories.ts'
import { systemClock } from '../../../src/lib/clock.ts'
import { tokenHash } from '../../../src/lib/token-hash.ts'
import { capturedLog } from '../../support/captured-log.ts'
import { GitlabDouble } from '../../support/gitlab/gitlab-double.ts'
import { type GitlabSideOptions, startGitlabSide } from '../../support/gitlab/gitlab-side.ts'
import { createKasApp } from '../../support/kas-app.ts'

/**
 * Mistakes of the first hour. Each message names the next step, and doc/operate/operations.md ("First hour") has the same
 * words: `said` is in both.
 */

t.setTimeout(60_000)
const doc = readFileSync(join(import.meta.dirname, '../../../doc/operate/operations.md'), 'utf8')
const [, firstHour = ''] = doc.split('\n## First hour')
const chapter = firstHour.split('\n## ')[0] ?? ''
const authority = await Authority.create('private')
const signal = new AbortController().signal

const agentId = 42n as AgentId
const issue = () => authority.issueServing({ dns: ['kas.test'], ip: [] })

/** @param text - output that an operator sees */
function tells(t: Test, text: string, said: string): void {
  t.ok(text.includes(said), `${said}\n${text}`)
  t.ok(chapter.includes(said), `doc/operate/operations.md has: ${said}`)
}

async function listening(t: Test, server: ReturnType<typeof createServer>): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

/** Starts kas with files as `npm start` and packages write them, and one mistake. */
async function failedStart(t: Test, { files = {}, text }: { files?: Record<string, string>; text: string }) {
  const secret = Buffer.alloc(32, 7).toString('base64')
  const twice = Buffer.from(secret).toString('base64')
  const short = Buffer.alloc(31, 7).toString('base64')
  const folder = t.testdir({ secret, twice, short, 'directory.yaml': '{}', ...files })
  const { app } = createKasApp(
    t,
    `
directory: { file: ./directory.yaml }
observability: { listen: { address: "127.0.0.1:0" } }
agent: { listen: { address: "127.0.0.1:0", listen_grace_period: 0s } }
${text}`.replaceAll('./', `${folder}/`),
  )
  const error = await app.start().then(
    () => new Error('it started'),
    (failure: Error) => failure,
  )
  return error.message
}

t.test('a server that cannot listen', async (t) => {
  const port = await listening(t, createServer())
  const [one, another] = await Promise.all([issue(), issue()])
  const files = { 'c.pem': one.certificate, 'k.pem': another.key }
  const secret = 'authentication_secret_file: ./secret'
  const rows: readonly (readonly [mistake: string, configuration: string, said: string])[] = [
    [
      'a taken port',
      `api: { listen: { address: "127.0.0.1:${port}", ${secret} } }`,
      "api.listen.address: port 8153 is taken: end who listens there (ss -ltnp 'sport = :8153' names it), or choose another port",
    ],
    [
      'a taken port of the gossip',
      `private_api: { listen: { address: "127.0.0.1:0", ${secret} } }
cluster: { listen: { address: "127.0.0.1:${port}" } }`,
      'port 8153 is taken',
    ],
    [
      'an address of another machine',
      `private_api: { listen: { address: "192.0.2.1:8155", ${secret} } }`,
      '192.0.2.1 is no address of this machine',
    ],
    [
      'the key of another certificate',
      `api: { listen: { address: "127.0.0.1:0", certificate_file: ./c.pem, key_file: ./k.pem, ${secret} } }`,
      'it is the key of another certificate',
    ],
    [
      'a socket in a folder that is not there',
      'ops: { socket: /does/not/exist/ops }',
      'the folder of /does/not/exist/ops does not exist',
    ],
    [
      'a secret that is encoded twice',
      'api: { listen: { address: "127.0.0.1:0", authentication_secret_file: ./twice } }',
      'found 44 bytes, allowed: exactly 32 bytes in base64: it is encoded twice',
    ],
    [
      'a secret of another length',
      'api: { listen: { address: "127.0.0.1:0", authentication_secret_file: ./short } }',
      'found 31 bytes, allowed: exactly 32 bytes in base64',
    ],
  ]
  for (const [mistake, text, said] of rows) {
    await t.test(mistake, async (t) => {
      const message = await failedStart(t, { files, text })
      tells(t, message.replaceAll(String(port), '8153'), said)
      t.notMatch(message, '\n', 'a line, and no stack')
    })
  }
})

t.test('GitLab that cannot be asked', async (t) => {
  const serving = await authority.issueServing({ dns: [], ip: ['127.0.0.1'] })
  const tls = await GitlabDouble.start(t, { tls: serving })
  const plain = await GitlabDouble.start(t)
  const page = (status: number, title: string): RequestListener => {
    const html = `<html><head><title>${title}</title></head></html>`
    return (_request, response) => void response.writeHead(status, { 'content-type': 'text/html' }).end(html)
  }
  const nginx = await listening(t, createHttpServer(page(400, '400 The plain HTTP request was sent to HTTPS port')))
  const redirect = await listening(t, createHttpServer(page(301, '301 Moved Permanently')))
  const login = await listening(t, createHttpServer(page(200, 'Sign in')))
  const nobody = createServer()
  const free = await listening(t, nobody)
  nobody.close()
  const skewed = { clock: { ...systemClock, now: () => Date.now() + 3_600_000 } }
  const other = join(t.testdir({ secret: Buffer.alloc(32, 9).toString('base64') }), 'secret')
  const local = (port: number, scheme = 'http') => ({ client: { address: `${scheme}://127.0.0.1:${port}` } })
  const rows: readonly (readonly [mistake: string, options: GitlabSideOptions, said: string])[] = [
    ['an authority that is not trusted', { client: { address: tls.address } }, 'set gitlab.ca_certificate_file'],
    [
      'https to http',
      { client: { address: plain.address.replace('http:', 'https:') } },
      'does GitLab speak http where',
    ],
    ['http to https', { client: { address: tls.address.replace('https:', 'http:') } }, 'does GitLab speak https where'],
    ['http to https of nginx', local(nginx), 'does GitLab speak https where'],
    ['a redirect', local(redirect), 'gitlab.address is redirected'],
    ['a page in front', local(login), 'is it GitLab that answers at gitlab.address?'],
    ['nobody', local(free), 'nothing listens at gitlab.address'],
    [
      'no such host',
      { client: { address: 'http://gitlab.invalid' } },
      'no address is known for the host of gitlab.address',
    ],
    [
      'another secret',
      { client: { secretFile: other } },
      'is gitlab.authentication_secret_file the secret that GitLab has',
    ],
    ['a clock that is wrong', skewed, 'are both clocks right?'],
  ]
  for (const [mistake, options, said] of rows) {
    await t.test(mistake, async (t) => {
      const { directory, lines } = await startGitlabSide(t, plain, {
        ...options,
        client: { maxRepeats: 0, ...options.client },
      })
      for (let again = 0; again < 3; again++) {
        await t.rejects(directory.agentByToken('glagent-prod', signal), { code: 'DIRECTORY_UNAVAILABLE' })
      }
      const told = lines.filter(({ level }) => level === 'error')
      tells(t, told.map(({ msg, hint }) => `${msg} ${hint ?? ''}`).join('\n'), said)
      t.equal(told.length, 1, 'once, not for each call')
    })
  }
})

t.test('who may not, by the directory file', async (t) => {
  const users = [
    { id: 6, username: 'bob', tokens: [{ sha256: tokenHash('bob') }], roles: { projects: { 1: ['reporter'] } } },
  ]
  const tree = {
    projects: [
      { id: 1, path: 'platform/clusters' },
      { id: 2, path: 'apps/web' },
    ],
    agents: [{ id: 42, name: 'prod', project: 1 }],
    users,
    ci_tokens: [{ sha256: tokenHash('job'), user: 6, project: 2, job: 900, pipeline: 90 }],
  }
  const { log, lines } = capturedLog()
  const file = join(t.testdir({ 'directory.yaml': JSON.stringify(tree) }), 'directory.yaml')
  const directoryFile = new DirectoryFile({ log }, { file })
  t.teardown(() => directoryFile.stop())
  await directoryFile.start()
  const refused = (configuration: AgentConfiguration | undefined, who: 'user' | 'job') => async (t: Test) => {
    lines.length = 0
    const configurations = { current: async () => configuration, onAnyChange: () => () => undefined }
    const directory = new FileDirectory({ directoryFile, configurations, log })
    const ask = (): Promise<unknown> => {
      if (who === 'job') return directory.grantJob(agentId, 'job', signal)
      return directory.grantUser(agentId, { type: 'personal_access_token', key: 'bob' }, signal)
    }
    for (let again = 0; again < 3; again++) {
      await t.rejects(
        ask(),
        { message: who === 'job' ? 'Forbidden: agentId is not allowed' : 'Unauthorized' },
        'as upstream',
      )
    }
    t.equal(lines.length, 1, 'told once')
    const msg = `${who === 'job' ? 'CI job' : 'User'} refused by the agent configuration`
    t.match(lines, [
      { msg, agent_id: '42', agent_project: 'platform/clusters', file: '.gitlab/agents/prod/config.yaml' },
    ])
    return String(lines[0]?.reason)
  }
  const says = (text: string, more: Partial<AgentConfiguration> = {}): AgentConfiguration => ({
    commit: 'c'.repeat(40) as CommitId,
    configuration: parseAgentConfiguration('config.yaml', Buffer.from(text)),
    seenAt: 0,
    since: 0,
    ...more,
  })
  const access = 'user_access: { access_as: { agent: {} }, projects: [{ id: platform/clusters }, { id: typo }] }'
  const rows: readonly (readonly [mistake: string, AgentConfiguration | undefined, 'user' | 'job', said: string])[] = [
    ['no file', says('', { isAbsent: true }), 'user', 'the default branch does not have the file'],
    ['an empty repository', undefined, 'user', 'the repository of the project is empty'],
    ['no user_access', says('ci_access: {}'), 'user', 'it has no user_access with an access_as'],
    [
      'no role',
      says(access),
      'user',
      'the directory file gives the user no role of developer or above in any of its user_access: project platform/clusters, project typo (which the directory file does not have)',
    ],
    ['no file, a job', says('', { isAbsent: true }), 'job', 'the default branch does not have the file'],
    ['a job of another project', says(access), 'job', 'ci_access does not name the project of the job'],
  ]
  for (const [mistake, configuration, who, said] of rows) {
    await t.test(mistake, async (t) => tells(t, await refused(configuration, who)(t), said))
  }
})

t.test('a kubeconfig for plain http', async (t) => {
  const folder = t.testdir({
    'directory.yaml': JSON.stringify({
      projects: [{ id: 1, path: 'a' }],
      agents: [{ id: 42, name: 'prod', project: 1 }],
      users: [{ id: 5, username: 'ada' }],
    }),
  })
  const stderr: string[] = []
  const io = { stdout: { write: () => true }, stderr: { write: (text: string) => stderr.push(text) }, env: {} }
  const to = ['--directory', join(folder, 'directory.yaml'), '--server', 'http://kas.test/k8s-proxy']
  t.equal(await runCli(['kubeconfig', '--agent', 'prod', '--user', 'ada', ...to], io as never), 0)
  tells(t, stderr.join(''), 'kubectl sends no token over http: put TLS in front')
})

t.test('what other tests provoke stands in the document too', async (t) => {
  for (const said of [
    'A call was refused: if it is of GitLab, is api.listen.authentication_secret_file its secret, are both clocks right?',
    'Certificate is not valid at this time: renew it, or set the clock of this machine',
    'another kas listens on /run/kas/ops.sock',
    'port 443 is not for this user',
  ]) {
    t.ok(chapter.includes(said), said)
  }
})
