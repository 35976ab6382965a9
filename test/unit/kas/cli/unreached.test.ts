import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createServer as createTcp } from 'node:net'
import t, { type Test } from 'tap'
import { Authority } from '../../../../dev/certificates.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { ManualClock } from '../../../support/manual-clock.ts'
import { checkedOutput } from '../../../support/output-schema.ts'
import { type Answer, answering, begin, frozen, kasOf, kubeconfigText, listen, type Run } from './unreached-ground.ts'

/** Ways in which a command cannot reach kas. For each command: the sentence, the exit code, the time. */

const commands = [
  'tree',
  'get pods',
  'get events',
  'health',
  'views role',
  'gitops status',
  'gitops forget shop',
  'gitops approve shop --yes',
  'log --kubeconfig config',
  'agents',
  'kubeconfig --all --server URL --token-file token --file made',
] as const
/** exit code of a command that ends at once; `kas health` has codes of its own */
const codeOf = (line: string, isCaller: boolean) => (line === 'health' && !isCaller ? 5 : 1)

interface Place {
  readonly server: string
  readonly ca?: string
}

const status = (code: number, message: string, more: object = {}): Answer => ({
  status: code,
  body: JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', message, code, ...more }),
})
const ofKas = (code: number, message: string) => status(code, `GitLab Agent Server: ${message}`)
const page = (code: number, title: string, headers: Record<string, string> = { server: 'nginx/1.25' }): Answer => ({
  status: code,
  body: `<html><head><title>${title}</title></head></html>`,
  headers,
})

let authority: Authority
t.before(async () => {
  authority = await Authority.create('test')
})
const issue = (ip: string) => authority.issueServing({ dns: [], ip: [ip] })

/** Servers for which each command ends at once. */
const ways: Readonly<Record<string, [place: (t: Test) => Promise<Place | string>, says: RegExp, isCaller?: true]>> = {
  'nobody listens': [
    async () => `http://127.0.0.1:${await freePort()}/k8s-proxy/`,
    /nobody listens at 127\.0\.0\.1:\d+.*: does kas run, or the port-forward to it\?/,
  ],
  'no such host': [
    async () => 'https://kas.invalid/k8s-proxy/',
    /no host is called kas\.invalid.*check the address, and the DNS/,
  ],
  'an authority that is not trusted': [
    (t) => asKas(t, '127.0.0.1'),
    /the authority of the certificate at .* is not trusted\. Name it: certificate-authority of the kubeconfig, or kas kubeconfig --ca/,
  ],
  'a certificate for another name': [
    async (t) => ({ server: await asKas(t, '127.0.0.2'), ca: authority.certificate }),
    /the certificate at .* is for another name.*127\.0\.0\.2/,
  ],
  'an authority that is no certificate': [
    async (t) => ({ server: await asKas(t, '127.0.0.1'), ca: '-----BEGIN CERTIFICATE-----\nx\n' }),
    /cannot be read: it has to be a certificate in PEM|is not trusted/,
  ],
  'https where http is spoken': [
    async (t) => (await answering(t, page(200, 'hello'))).replace('http:', 'https:'),
    /no TLS is spoken at .*: is it http:\/\/, or another port\?/,
  ],
  'http where https is spoken': [
    async (t) => (await asKas(t, '127.0.0.1')).replace('https:', 'http:'),
    /TLS is spoken at .* begins with http:\/\/: write https:\/\//,
  ],
  'http where a web server speaks https': [
    (t) => answering(t, page(400, '400 The plain HTTP request was sent to HTTPS port')),
    /TLS is spoken at .* write https:\/\//,
  ],
  'a token that kas does not know': [
    (t) => answering(t, ofKas(401, 'Unauthorized')),
    /does not know the token: .* kas kubeconfig makes one\. kas answered 401: GitLab Agent Server: Unauthorized/,
    true,
  ],
  'an agent that does not let the caller in': [
    (t) => toAda(t, ofKas(403, 'Forbidden: agentId is not allowed')),
    /you are ada, and agent 42 does not let you in; these agents do: 7 \(prod\)|^ID|kubeconfig written/,
    true,
  ],
  'an agent that does not let the caller in, or that there is not, as kas answers': [
    (t) => toAda(t, ofKas(401, 'Unauthorized')),
    /you are ada, and agent 42 does not let you in, or there is none; these agents do: 7 \(prod\)\. kas answered 401|^ID|kubeconfig written/,
    true,
  ],
  'another path of kas': [
    (t) => answering(t, ofKas(400, 'Bad request: URL does not start with expected prefix')),
    /kas answers at .*, but not below \/k8s-proxy\/: let the server end with its url_path_prefix/,
  ],
  'an API server': [
    (t) => answering(t, { ...status(401, 'Unauthorized', { reason: 'Unauthorized' }), headers: { 'audit-id': 'x' } }),
    /a Kubernetes API server answers at .*, not kas: the address is that of a cluster itself\. kas kubeconfig makes/,
  ],
  'GitLab’s own kas, which asks the cluster': [
    (t) => answering(t, status(403, 'forbidden: User "x" cannot get path "/views"')),
    /a Kubernetes API server answers .*or GitLab's own kas passes the question on/,
  ],
  'a web server': [
    (t) => answering(t, page(404, '404 Not Found')),
    /is not kas.*It answered 404 \(nginx\/1\.25\): 404 Not Found/,
  ],
  'a proxy that asks for a login': [
    (t) => answering(t, page(401, 'Authorization Required')),
    /is not kas, and asks for a login of its own: let it pass/,
  ],
  'a proxy that leads elsewhere': [
    (t) => answering(t, page(302, 'Found', { location: 'https://login.example.com/' })),
    /leads elsewhere to https:\/\/login\.example\.com\//,
  ],
  'a program that speaks no HTTP': [
    (t) => frozen(t, 'SSH-2.0-OpenSSH_9.2\r\n'),
    /does not speak HTTP: .*port that of kas for kubectl/,
  ],
}

/** Starts a kas that knows the token and refuses everything except the list of agents. */
function toAda(t: Test, refusal: Answer): Promise<string> {
  const agents = [{ id: '7', name: 'prod', project: 'a/b', pods: 0, connected: [] }]
  const known = { status: 200, body: JSON.stringify({ user: 'ada', agents, unread: 0 }) }
  return answering(t, (path) => (path.endsWith('/agents') ? known : refusal))
}

async function asKas(t: Test, ip: string): Promise<string> {
  return await answering(t, page(200, 'hello'), await issue(ip))
}

async function freePort(): Promise<number> {
  const server = createTcp()
  const { promise, resolve } = Promise.withResolvers<number>()
  server.listen(0, '127.0.0.1', () => {
    const { port } = server.address() as { port: number }
    server.close(() => resolve(port))
  })
  return await promise
}

/** Changes to a folder of the test, with the files that commands read. */
async function folderFor(t: Test, { server, ca }: Place): Promise<void> {
  t.chdir(t.testdir({ token: 'secret\n' }))
  await writeFile('config', kubeconfigText(server, ca === undefined ? {} : { ca }))
  await writeFile('ca.pem', ca ?? '')
}

function lineFor(line: string, { server, ca }: Place): string {
  return line.replace('URL', `${server}${ca === undefined ? '' : ' --ca ca.pem'}`)
}

const env = { KUBECONFIG: 'config' }

for (const [name, [placeOf, says, isCaller = false]] of Object.entries(ways)) {
  t.test(`${name}: each command ends at once, and says it`, async (t) => {
    const given = await placeOf(t)
    const place = typeof given === 'string' ? { server: given } : given
    await folderFor(t, place)
    for (const line of commands) {
      // a command that waits would wait forever: the clock never moves
      const { said, code } = begin(lineFor(line, place), { clock: new ManualClock(), env })
      const found = await code
      // the command only asked for its caller, and that has an answer
      if (!(isCaller && found === 0)) t.equal(found, codeOf(line, isCaller), `${line}: ${said.stderr}${said.stdout}`)
      t.match(said.stderr + said.stdout, says, line)
    }
  })
}

t.test('kas health -o json prints its report also where kas is not reached', async (t) => {
  await folderFor(t, { server: `http://127.0.0.1:${await freePort()}/k8s-proxy/` })
  const { said, code } = begin('health -o json', { clock: new ManualClock(), env })
  t.equal(await code, 5)
  t.match(said.stderr, /nobody listens/)
  t.match(checkedOutput(said.stdout), {
    kind: 'HealthReport',
    state: 'unreached',
    stateMessage: /nobody listens/,
    exitCode: 5,
  })
})

t.test('with a variable for a proxy it is said that it is not used', async (t) => {
  const server = `http://127.0.0.1:${await freePort()}/k8s-proxy/`
  await folderFor(t, { server })
  const { said, code } = begin('agents', { clock: systemClock, env: { ...env, HTTPS_PROXY: 'http://proxy:3128' } })
  t.equal(await code, 1)
  t.match(said.stderr, 'HTTPS_PROXY is set: the commands of kas do not use a proxy')
})

t.test('a kubeconfig of something else is named with its file and context', async (t) => {
  t.chdir(t.testdir({ config: kubeconfigText('https://10.0.0.1:6443', { token: 'eyJhbGciOi' }) }))
  for (const line of commands.filter((each) => !each.startsWith('kubeconfig'))) {
    const { said, code } = begin(line, { clock: systemClock, env })
    t.equal(await code, 2, line)
    t.match(said.stderr, 'config, context x, is no kubeconfig of kas: its token is not pat:<agent id>:<token>')
  }
  await writeFile('config', kubeconfigText('https://10.0.0.1:6443', { exec: { command: 'aws' } }))
  for (const line of commands.filter((each) => !each.startsWith('kubeconfig'))) {
    const { said, code } = begin(line, { clock: systemClock, env })
    t.equal(await code, 2, line)
    t.match(said.stderr, /config, context x, is no kubeconfig of kas: user "\w+" of .* from a program/)
  }
  await writeFile('config', kubeconfigText('https://:x'))
  const { said, code } = begin('tree', { clock: systemClock, env })
  t.equal(await code, 2)
  t.match(said.stderr, 'config, context x: the server https://:x is no URL')
})

interface Waiting {
  readonly place: (t: Test) => Promise<string>
  /** on stderr, one second after the start by the command's clock */
  readonly says: RegExp
  readonly lines?: readonly string[]
}

const viewCommands = ['tree', 'get pods', 'get events', 'health']
const away = { code: 'AGENT_NOT_CONNECTED', text: 'No replica has had agent 42 since 2026-06-01T00:00:00Z, for 60 s' }
const error = (code: string, text: string) => ({ type: 'error', id: 1, code, text })
const syncing = {
  type: 'update',
  id: 1,
  update: { seq: 1, at: 1, state: { is: 'syncing', since: 1, why: '3 of 40 kinds are listed' } },
}
const waits: Readonly<Record<string, Waiting>> = {
  'kas is frozen': {
    place: (t) => frozen(t),
    says: /no (?:answer from|connection to) 127\.0\.0\.1:\d+ .*(?:yet|within 15 s)/,
    lines: commands,
  },
  'the agent is away': {
    place: (t) => kasOf(t, { sources: [], agent: 'absent', away }, error('AGENT_NOT_CONNECTED', away.text)),
    says: /No replica has had agent 42 since 2026-06-01T00:00:00Z/,
  },
  'kas has just started': {
    place: (t) => kasOf(t, { sources: [], agent: 'absent' }),
    says: /agent 42 is not connected: it has been away for less than 20 s, or kas has just started/,
    lines: [...viewCommands, 'views role'],
  },
  'the agent does not answer': {
    place: (t) => kasOf(t, { sources: [], agent: 'connected' }),
    says: /kas at .* answers, and agent 42 has not yet/,
    lines: [...viewCommands, 'views role'],
  },
  'views are off': {
    place: (t) =>
      kasOf(
        t,
        { sources: [], agent: 'connected' },
        error('VIEWS_NOT_SERVED', 'there is no views.yaml beside the config.yaml of this agent'),
      ),
    says: /views of agent 42 are off: there is no views\.yaml beside .*One with \{\} turns them on, and rbac\.views\.enabled/,
  },
  'the cluster is still listed': {
    place: (t) => kasOf(t, {}, syncing),
    says: /the agent is still listing its cluster: 3 of 40 kinds are listed/,
  },
  'a proxy does not reach kas': {
    place: (t) => answering(t, page(502, '502 Bad Gateway')),
    says: /what stands in front of kas at .* does not reach it: does kas run\? It answered 502 \(nginx/,
  },
}

for (const [name, { place, says, lines = viewCommands }] of Object.entries(waits)) {
  t.test(`${name}: it is said within 2 s, and the command waits up to its time`, async (t) => {
    const server = await place(t)
    await folderFor(t, { server })
    for (const line of lines) {
      const clock = new ManualClock()
      const run = begin(lineFor(line, { server }), { clock, env })
      await waited(t, run, { clock, says, line })
      t.match(run.said.stderr + run.said.stdout, says, `${line}: the last words, too`)
    }
  })
}

t.test('kas answers, and says why there is no view: that alone is said', async (t) => {
  const off = error('VIEWS_NOT_SERVED', 'there is no views.yaml beside the config.yaml of this agent')
  await folderFor(t, { server: await kasOf(t, { sources: [], agent: 'connected' }, off) })
  for (const line of viewCommands) {
    const clock = new ManualClock()
    const { said, code } = begin(line, { clock, env })
    await until(() => said.stderr !== '')
    await ending(code, clock)
    t.match(said.stderr, /^kas: views of agent 42 are off: /, line)
    t.notMatch(said.stderr, /not yet|no answer yet/, line)
  }
})

t.test('a reason that lasts longer at each question is said once', async (t) => {
  let seconds = 20
  const server = createServer((_, response) => {
    const text = `No replica has had agent 42 since 2026-06-01T00:00:00Z, for ${++seconds} s`
    response.end(JSON.stringify({ sources: [], agent: 'absent', away: { code: 'AGENT_NOT_CONNECTED', text } }))
  })
  await folderFor(t, { server: `http://127.0.0.1:${await listen(t, server)}/k8s-proxy/` })
  const clock = new ManualClock()
  const { said, code } = begin('gitops status --commit abcdef12 --wait 10s', { clock, env })
  t.equal(await ending(code, clock), 5)
  t.ok(seconds > 22, `${seconds - 20} questions`)
  t.strictSame(said.stderr.match(/^kas: No replica has had agent 42/gm)?.length, 1, said.stderr)
})

/** Moves the clock until a command ends. */
async function ending(code: Promise<number>, clock: ManualClock): Promise<number> {
  let ended: number | undefined
  void code.then((found) => {
    ended = found
  })
  for (let i = 0; i < 400 && ended === undefined; i++) {
    await until(() => clock.pending > 0 || ended !== undefined)
    clock.advance(500)
    await until(() => ended !== undefined, 20)
  }
  return code
}

/** Moves the clock by less than 2 s until the command prints `says`, then to the command's end. */
async function waited(
  t: Test,
  { said, code }: Run,
  { clock, says, line }: { clock: ManualClock; says: RegExp; line: string },
) {
  let ended: number | undefined
  void code.then((found) => {
    ended = found
  })
  await until(() => clock.pending > 0 || ended !== undefined)
  for (let ms = 0; ms < 1900 && !says.test(said.stderr); ms += 100) {
    clock.advance(ms === 0 ? 1000 : 100)
    await until(() => says.test(said.stderr), 20)
  }
  await until(() => says.test(said.stderr))
  t.equal(ended, undefined, `${line} waits`)
  for (let i = 0; i < 400 && ended === undefined; i++) {
    clock.advance(500)
    await until(() => ended !== undefined, 2)
  }
  t.equal(await code, line === 'health' ? 5 : 1, line)
}

/** Waits by turns of the event loop, not by time. */
async function until(holds: () => boolean, turns = 50_000): Promise<void> {
  for (let i = 0; i < turns && !holds(); i++) await new Promise(setImmediate)
}

const socketCommands = ['status', 'route --agent 42', 'log', 'sessions', 'sessions end --user ada']
const socketEnv = { KAS_OPS_SOCKET: 'ops' }

t.test('the socket of a replica: nobody, no HTTP, another program, another JSON', async (t) => {
  const places: [server: Parameters<typeof listen>[1] | undefined, says: RegExp][] = [
    [undefined, /no kas listens on ops-0: does it run with ops\.socket\?/],
    [
      createTcp((socket) => socket.on('error', () => undefined).end('hello\n')),
      /what listens on ops-1 is not kas: |the connection to the kas on ops-1 was lost/,
    ],
    [
      createServer((_, response) => response.writeHead(404).end('<html>')),
      /what listens on ops-2 is not kas: it answered 404/,
    ],
    [
      createServer((_, response) => response.end('<html>\n')),
      /what listens on ops-3 is not kas: its answer is no JSON/,
    ],
  ]
  t.chdir(t.testdir({}))
  for (const [i, [server, says]] of places.entries()) {
    const name = `ops-${i}`
    if (server) await new Promise<void>((resolve) => void server.listen(name, resolve))
    for (const line of socketCommands) {
      const { said, code } = begin(line, { clock: systemClock, env: { KAS_OPS_SOCKET: name } })
      t.equal(await code, 1, `${line}: ${said.stderr}${said.stdout}`)
      t.match(said.stderr, says, line)
    }
    server?.close()
  }
})

t.test('the socket of a replica that is frozen', async (t) => {
  t.chdir(t.testdir({}))
  const server = createTcp((socket) => void socket.on('error', () => undefined))
  await new Promise<void>((resolve) => void server.listen('ops', resolve))
  t.teardown(() => server.close())
  for (const line of [...socketCommands, 'log --follow']) {
    const clock = new ManualClock()
    const run = begin(line, { clock, env: socketEnv })
    await waited(t, run, { clock, says: /the kas on ops (?:yet|did not answer)/, line })
    t.match(run.said.stderr, /the kas on ops did not answer within 10000 ms/)
  }
})
