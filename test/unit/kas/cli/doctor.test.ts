import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { Authority } from '../../../../dev/certificates.ts'
import { runCli } from '../../../../src/kas/cli/cli.ts'
import { checkNames } from '../../../../src/kas/cli/doctor/doctor.ts'
import { checkDiscovery, checkGit } from '../../../../src/kas/cli/doctor/surroundings.ts'
import type { KasConfig } from '../../../../src/kas/config/kas-schema.ts'
import type { LinkReport, LinksReport, ReplicaLinksReport } from '../../../../src/kas/peers/replica-links.ts'
import { OpsSocket } from '../../../../src/kas/servers/ops-socket/ops-socket.ts'
import type { MemberReport, StatusReport } from '../../../../src/kas/servers/ops-socket/status-report.ts'
import type { Finding } from '../../../../src/lib/doctor/findings.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { startConnectProxy } from '../../../support/connect-proxy.ts'
import { type DoctorFault, testFaults } from '../../../support/doctor-faults.ts'
import { GitlabDouble } from '../../../support/gitlab/gitlab-double.ts'
import { patience } from '../../../support/slowness.ts'

/** A sound installation. kas doctor names each fault planted in it and the remedy. */

const dayMs = 86_400_000
/** ms; the longest chain of requests, each with 10 s: the id of a replica, then the front */
const hangMs = 26_000
const names = { dns: ['localhost', 'gitlab.test'], ip: ['127.0.0.1'] }
const authority = await Authority.create('root of the test')
const other = await Authority.create('another root')

const link = (name: string, more: Partial<LinkReport> = {}): LinkReport => ({
  name,
  instance: name,
  address: '10.0.0.1:8155',
  reach: 'reachable',
  gossip: true,
  ...more,
})

const member = (name: string, more: Partial<MemberReport> = {}): MemberReport => ({
  name,
  instance: name,
  state: 'serving',
  version: '1.0.0',
  address: '10.0.0.1:8155',
  reach: 'reachable',
  calls: 0,
  gossip: true,
  instances: 1,
  row: { version: 1, connections: 0, pods: 0, agents: 0 },
  ...more,
})

interface World {
  readonly folder: string
  readonly gitlab: GitlabDouble
  /** Configuration as it is written to the file. A test may change it before. */
  readonly config: Record<string, Record<string, unknown>>
  readonly status: { -readonly [Key in keyof StatusReport]: StatusReport[Key] }
  readonly links: {
    replicas: ReplicaLinksReport[]
    silent: LinksReport['silent']
    failingSources: LinksReport['failingSources']
  }
  readonly env: Record<string, string>
  /** address of all servers of kas; a program listens there */
  readonly address: string
  write(name: string, text: string): Promise<string>
  run(...args: string[]): Promise<{ code: number; stdout: string; findings: Finding[] }>
}

async function sound(t: Test): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'doctor-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const write = async (name: string, text: string) => {
    await writeFile(join(folder, name), text)
    return join(folder, name)
  }
  const pair = await authority.issueServing(names)
  const gitlab = await GitlabDouble.start(t, { tls: pair })
  const status: World['status'] = {
    instance: 'kas-0',
    replica: { name: 'kas-0', version: '1.0.0' },
    members: [member('kas-0', { reach: 'self' }), member('kas-1')],
    agents: [],
    agentCount: 0,
  }
  const links: World['links'] = {
    replicas: [
      { name: 'kas-0', instance: 'kas-0', links: [link('kas-1')], unanswered: [] },
      { name: 'kas-1', instance: 'kas-1', links: [link('kas-0')], unanswered: [], ahead: [-20, 30] },
    ],
    silent: [],
    failingSources: [],
  }
  const socket = join(folder, 'ops.sock')
  const answers = { '/status': () => status, '/links': () => links }
  const server = new OpsSocket({ answers, log: capturedLog().log }, { path: socket })
  await server.start()
  t.teardown(() => server.stop())
  const listener = createServer()
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => listener.close())
  const address = `127.0.0.1:${(listener.address() as AddressInfo).port}`
  const listen = {
    address,
    certificate_file: await write('serving.crt', pair.certificate + authority.certificate),
    key_file: await write('serving.key', pair.key),
  }
  const ofGitlab = await write('gitlab-secret', Buffer.from(gitlab.secret).toString('base64'))
  const config: World['config'] = {
    gitlab: {
      address: gitlab.address,
      authentication_secret_file: ofGitlab,
      ca_certificate_file: await write('ca.crt', authority.certificate),
    },
    agent: { listen, kubernetes_api: { listen } },
    api: { listen: { address, authentication_secret_file: ofGitlab } },
    observability: { listen: { address } },
    cluster: { listen: { address } },
    private_api: {
      listen: {
        address,
        authentication_secret_file: await write('replicas-secret', randomBytes(32).toString('base64')),
      },
    },
    ops: { socket },
  }
  const env: World['env'] = {}
  const run = async (...args: string[]) => {
    const file = await write('kas.yaml', JSON.stringify(config))
    let stdout = ''
    const io = {
      env,
      stdout: {
        write: (text: string) => {
          stdout += text
        },
      },
      stderr: { write: (text: string) => t.comment(text) },
      stdin: (async function* () {})(),
    }
    const command = ['doctor', `--configuration-file=${file}`, ...args]
    await runCli([...command, '--output', 'json'], io)
    const { findings } = JSON.parse(stdout) as { findings: Finding[] }
    stdout = ''
    const code = await runCli(command, io)
    return { code, stdout, findings }
  }
  return { folder, gitlab, config, status, links, env, address, write, run }
}

t.test('of a sound installation nothing is said but that it is, and no secret', async (t) => {
  const world = await sound(t)
  const { code, stdout, findings } = await world.run()
  t.equal(code, 0, stdout)
  t.strictSame(
    findings.filter(({ state }) => state !== 'ok' && state !== 'skipped'),
    [],
  )
  const looked = findings.filter(({ state }) => state === 'ok').map(({ check }) => check)
  t.strictSame(
    [...new Set(looked)],
    ['configuration', 'listen', 'secrets', 'certificates', 'gitlab', 'clocks', 'replicas'],
  )
  t.match(stdout, /ca\.crt holds certificates that can be read; their dates are not checked\n/)
  t.strictSame([...new Set(findings.map(({ check }) => check))].sort(), [...checkNames].sort(), 'each is named')
  for (const encoding of ['base64', 'hex'] as const) {
    t.notOk(stdout.includes(Buffer.from(world.gitlab.secret).toString(encoding)), encoding)
  }
})

t.test('with a directory file', async (t) => {
  const { config, write, run } = await sound(t)
  config.directory = { file: await write('directory.yaml', '{}') }
  const anyPort = { listen: { address: '127.0.0.1:0' } }
  for (const block of ['agent', 'api', 'private_api', 'observability', 'cluster']) config[block] = anyPort
  config.ops = {}
  const { code, stdout, findings } = await run('--pre')
  t.equal(code, 0, stdout)
  const of = (check: string) => findings.filter((one) => one.check === check).map(({ state }) => state)
  t.strictSame(of('directory'), ['ok'])
  t.strictSame(of('git'), ['ok'])
  t.strictSame(of('gitlab'), ['skipped'])
  t.strictSame(of('replicas'), ['skipped'], '--pre')
})

t.test('a git that is too old, that fails, and none', async (t) => {
  const config = { directory: { file: 'directory.yaml' } } as KasConfig
  const folder = t.testdir({})
  const before = process.env.PATH
  t.teardown(() => {
    process.env.PATH = before
  })
  process.env.PATH = folder
  t.match(await checkGit(config), [{ state: 'failed', text: /ENOENT/, advice: /install git 2\.31 or later/ }])
  const says = (script: string) => writeFile(join(folder, 'git'), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
  for (const version of ['2.30.9', '1.99.0']) {
    await says(`echo git version ${version}`)
    t.match(await checkGit(config), [{ state: 'failed', text: `git version ${version}`, advice: /install git 2\.31/ }])
  }
  await says('echo git version 3.0.0')
  t.match(await checkGit(config), [{ state: 'ok' }])
  await says('exit 3')
  t.match(await checkGit(config), [{ state: 'failed', text: /git --version/ }])
})

t.test('a short name is found by the search list, as kas finds it', async (t) => {
  const missing = (name: string) => Object.assign(new Error(`queryA ENOTFOUND ${name}`), { code: 'ENOTFOUND' })
  const addressesOf = (known: string) => async (name: string) => {
    if (name === known) return ['10.0.0.1']
    throw missing(name)
  }
  const config = { cluster: { discovery: { dns: 'kas-gossip:8156' } } } as KasConfig
  const resolver = { resolve4: addressesOf('kas-gossip.kas.svc.cluster.local'), resolve6: addressesOf('none') }
  const domains = ['kas.svc.cluster.local', 'svc.cluster.local']
  t.match(await checkDiscovery(config, { resolver, searchList: { domains, ndots: 5 } }), [
    { state: 'ok', text: 'kas-gossip has 10.0.0.1' },
  ])
  const refused = async (name: string) => {
    if (name === 'kas-gossip') throw Object.assign(new Error(`queryA ESERVFAIL ${name}`), { code: 'ESERVFAIL' })
    throw missing(name)
  }
  t.match(
    await checkDiscovery(config, { resolver: { ...resolver, resolve4: refused }, searchList: { domains, ndots: 5 } }),
    [{ state: 'failed', text: 'kas-gossip: queryA ESERVFAIL kas-gossip' }],
    'a server that fails is named before names that do not exist',
  )
})

t.test('the token of a collector is looked at, and has no fingerprint', async (t) => {
  const { config, write, run } = await sound(t)
  const token = await write('otlp-token', 'short\n')
  config.observability = {
    ...config.observability,
    tracing: { otlp_endpoint: 'http://127.0.0.1:1', otlp_token_secret_file: token },
  }
  const { code, stdout, findings } = await run()
  t.equal(code, 0, stdout)
  t.match(
    findings.find(({ subject }) => subject === 'observability.tracing.otlp_token_secret_file'),
    { check: 'secrets', state: 'ok', text: `${token} holds a token` },
  )
})

/** @param more - further fields of the link that `from` has */
function reachedBy({ links }: World, from: string, { name = 'kas-1', ...more }: Partial<LinkReport>): void {
  links.replicas = links.replicas.map((one) => (one.name === from ? { ...one, links: [link(name, more)] } : one))
}

function unansweredAt({ links }: World, dials: number, reason: string): void {
  const [own, ...others] = links.replicas as [ReplicaLinksReport]
  links.replicas = [{ ...own, unanswered: [{ address: '10.0.0.9:8156', dials, reason }] }, ...others]
}

const listenOf = ({ config }: World) => config.agent?.listen as Record<string, string>

const faults: Readonly<Record<string, DoctorFault<World>>> = {
  'a key that is misspelt, and says where kas listens': {
    check: 'configuration',
    says: /this key is not known, did you mean agent\.listen\?/,
    advises: /kas goes on without it: write the key as it is known/,
    plant: ({ config }) => {
      config.agent = { ...config.agent, lisen: {} }
    },
  },
  'kubectl without TLS, where others can read along': {
    check: 'certificates',
    state: 'note',
    says: /0\.0\.0\.0:\d+ is no loopback address and has no TLS: tokens of users and jobs .* can be read on the way/,
    advises: /name certificate_file and key_file, or let a proxy in front of kas end TLS/,
    plant: ({ config, address }) => {
      config.agent = {
        ...config.agent,
        kubernetes_api: { listen: { address: address.replace('127.0.0.1', '0.0.0.0') } },
      }
    },
  },
  'a secret that is too short': {
    check: 'secrets',
    says: /gitlab-secret.*found 31 bytes, allowed: exactly 32 bytes/,
    advises: /^write the secret that GitLab has; head -c 32 .* makes a new one for both$/,
    plant: ({ write }) => write('gitlab-secret', Buffer.alloc(31, 7).toString('base64')),
  },
  'a secret that is encoded twice': {
    check: 'secrets',
    says: /it is encoded twice, decode it once/,
    advises: /fingerprint/,
    plant: ({ write }) => write('gitlab-secret', btoa(Buffer.alloc(32, 7).toString('base64'))),
  },
  'a secret of browsers that is too short': {
    check: 'secrets',
    says: /found 32 bytes, allowed: 64 to 72 bytes/,
    advises: /head -c 64 /,
    plant: async ({ config, write }) => {
      const file = await write('browsers-secret', Buffer.alloc(32, 7).toString('base64'))
      config.agent = { ...config.agent, kubernetes_api: { websocket_token_secret_file: file } }
    },
  },
  'a secret of replicas that can be guessed': {
    check: 'secrets',
    state: 'note',
    says: /replicas-secret has 8 bytes: a fingerprint would give it away/,
    advises: /take 32 bytes or more/,
    plant: ({ write }) => write('replicas-secret', Buffer.alloc(8, 7).toString('base64')),
  },
  'a token of a collector with a blank': {
    check: 'secrets',
    says: /otlp-token: found no token/,
    advises: /write the token of the collector/,
    plant: async ({ config, write }) => {
      const file = await write('otlp-token', 'two words')
      config.observability = {
        ...config.observability,
        tracing: { otlp_endpoint: 'http://127.0.0.1:1', otlp_token_secret_file: file },
      }
    },
  },
  'a secret that is not there': {
    check: 'secrets',
    says: /replicas-secret: cannot be read: ENOENT/,
    advises: /head -c 32/,
    plant: ({ folder }) => rm(join(folder, 'replicas-secret')),
  },
  'the key of another certificate': {
    check: 'certificates',
    says: /serving\.crt with key .*: it is the key of another certificate/,
    advises: /name the pair/,
    plant: async ({ write }) => write('serving.key', (await authority.issueServing(names)).key),
  },
  'a chain with a link that is not of it': {
    check: 'certificates',
    says: /stands "CN=another root", which did not sign it/,
    advises: /put the certificate of "CN=root of the test" there/,
    plant: async ({ write }) => {
      const pair = await authority.issueServing(names)
      await write('serving.crt', pair.certificate + other.certificate)
      await write('serving.key', pair.key)
    },
  },
  'a chain with another authority of the same name': {
    check: 'certificates',
    says: /behind "CN=root of the test" stands "CN=root of the test", which did not sign it/,
    advises: /put the certificate of "CN=root of the test" there/,
    plant: async ({ write }) => {
      const pair = await authority.issueServing(names)
      const anew = await Authority.create('root of the test')
      await write('serving.crt', pair.certificate + authority.certificate + anew.certificate)
      await write('serving.key', pair.key)
    },
  },
  'a certificate that ends soon': {
    check: 'certificates',
    state: 'note',
    says: /serving\.crt: 2 days are left/,
    advises: /renew it/,
    plant: async ({ write }) => {
      const brief = await Authority.create('brief', { lifeMs: 2.5 * dayMs })
      const pair = await brief.issueServing(names)
      await write('serving.crt', pair.certificate)
      await write('serving.key', pair.key)
    },
  },
  'an authority that is a key': {
    check: 'certificates',
    says: /ca\.crt: found no certificate, allowed: PEM/,
    advises: /certificate of the authority/,
    plant: async ({ write }) => write('ca.crt', (await authority.issueServing(names)).key),
  },
  'no authority, where one is needed': {
    check: 'gitlab',
    says: /GitLab/,
    advises: /set gitlab\.ca_certificate_file/,
    plant: ({ config }) => delete config.gitlab?.ca_certificate_file,
  },
  'another secret than GitLab has': {
    check: 'gitlab',
    says: /GitLab refuses kas itself/,
    advises: /compare gitlab\.authentication_secret_file/,
    plant: ({ write }) => write('gitlab-secret', Buffer.alloc(32, 7).toString('base64')),
  },
  'a clock that is off by a minute': {
    check: 'gitlab',
    says: /GitLab refuses kas itself/,
    advises: /the clocks of both/,
    plant: ({ gitlab }) => {
      gitlab.now = () => Date.now() - 60_000
    },
  },
  'a GitLab that is not there': {
    check: 'gitlab',
    says: /ECONNREFUSED/,
    advises: /nothing listens at gitlab\.address/,
    plant: ({ gitlab }) => gitlab.leave(),
  },
  'http for https': {
    check: 'gitlab',
    says: /http:/,
    advises: /does GitLab speak https where gitlab\.address says http/,
    plant: ({ config, gitlab }) => {
      config.gitlab = { ...config.gitlab, address: gitlab.address.replace('https', 'http') }
    },
  },
  'a page of something else': {
    check: 'gitlab',
    says: /gitlab\.address|https:/,
    advises: /is it GitLab that answers/,
    plant: ({ gitlab }) => {
      gitlab.fault = { kind: 'html' }
    },
  },
  'a front that wants a password': {
    check: 'gitlab',
    says: /401/,
    advises: /what is in front of it/,
    plant: ({ gitlab }) => {
      gitlab.fault = { kind: 'status', status: 401 }
    },
  },
  'a GitLab that fails': {
    check: 'gitlab',
    says: /502/,
    advises: /check GitLab/,
    plant: ({ gitlab }) => {
      gitlab.fault = { kind: 'status', status: 502 }
    },
  },
  'an address without its relative root': {
    check: 'gitlab',
    says: /404/,
    advises: /check GitLab/,
    plant: ({ config, gitlab }) => {
      config.gitlab = { ...config.gitlab, address: `${gitlab.address}/elsewhere` }
    },
  },
  'a directory file that cannot be used': {
    check: 'directory',
    says: /agents\[0\]\.project|found 9, allowed: the id of one of projects/,
    advises: /kas check-config --directory/,
    plant: async ({ config, write }) => {
      const text = 'agents: [{ id: 42, name: prod, project: 9 }]'
      config.directory = { file: await write('directory.yaml', text) }
    },
  },
  'a name that DNS does not know': {
    check: 'discovery',
    says: /kas\.invalid/,
    advises: /does DNS know it from here/,
    plant: ({ config }) => {
      config.cluster = { ...config.cluster, discovery: { dns: 'kas.invalid' } }
    },
  },
  'a replica that calls do not reach': {
    check: 'replicas',
    says: /calls do not reach kas-1 at 10\.0\.0\.1:8155 \(down\)/,
    advises: /open 8155/,
    plant: (world) => reachedBy(world, 'kas-0', { reach: 'down' }),
  },
  'two other replicas, of which one does not reach the other': {
    check: 'replicas',
    says: /calls do not reach kas-2 at 10\.0\.0\.1:8155 \(unreachable\)/,
    advises: /open 8155/,
    plant: (world) => reachedBy(world, 'kas-1', { name: 'kas-2', reach: 'unreachable' }),
  },
  'a replica that calls may not reach': {
    check: 'replicas',
    state: 'note',
    says: /calls may not reach kas-1 at 10\.0\.0\.1:8155: the link is suspect/,
    advises: /ask again/,
    plant: (world) => reachedBy(world, 'kas-0', { reach: 'suspect' }),
  },
  'a replica without gossip': {
    check: 'replicas',
    says: /it has no connection for gossip with kas-1 \(8156\)/,
    advises: /open 8156 between the two/,
    plant: (world) => reachedBy(world, 'kas-0', { gossip: false }),
  },
  'an address of discovery at which nobody is reached': {
    check: 'replicas',
    says: /no replica with its secret answers at 10\.0\.0\.9:8156, which discovery lists: connect ECONNREFUSED/,
    advises: /is 8156 open to it/,
    plant: (world) => unansweredAt(world, 3, 'connect ECONNREFUSED 10.0.0.9:8156'),
  },
  'an address of discovery at which nobody was reached once': {
    check: 'replicas',
    state: 'note',
    says: /no replica with its secret answers at 10\.0\.0\.9:8156/,
    advises: /ask again/,
    plant: (world) => unansweredAt(world, 1, 'connect ECONNREFUSED 10.0.0.9:8156'),
  },
  'an address of discovery at which another secret is known': {
    check: 'replicas',
    says: /no replica with its secret answers at 10\.0\.0\.9:8156/,
    advises: /compare private_api\.listen\.authentication_secret_file at both/,
    plant: (world) => unansweredAt(world, 5, 'Encryption failed'),
  },
  'a source of discovery that fails': {
    check: 'discovery',
    says: /HTTP 403.*what it found before is kept/,
    advises: /replicas that are new are not found/,
    plant: ({ links }) => {
      links.failingSources = [{ name: 'kubernetes', reason: 'HTTP 403' }]
    },
  },
  'a replica that knows no other one': {
    check: 'replicas',
    state: 'note',
    says: /it knows no other replica/,
    advises: /check cluster\.discovery/,
    plant: ({ links }) => {
      links.replicas = [{ name: 'kas-0', instance: 'kas-0', links: [], unanswered: [] }]
    },
  },
  'a replica that does not say whom it reaches': {
    check: 'replicas',
    state: 'note',
    says: /it does not say whom it reaches: not served/,
    advises: /ask there/,
    plant: ({ links }) => {
      links.silent = [{ name: 'kas-1', reason: 'not served' }]
    },
  },
  'a replica of another version': {
    check: 'replicas',
    state: 'note',
    says: /it is of version 1\.1\.0, the asked one of 1\.0\.0/,
    advises: /end the upgrade/,
    plant: ({ status }) => {
      status.members = [member('kas-0', { reach: 'self' }), member('kas-1', { version: '1.1.0' })]
    },
  },
  'a replica whose clock is off by a minute': {
    check: 'clocks',
    says: /its clock is 60 s behind this one/,
    advises: /time server/,
    plant: ({ links }) => {
      const [own, other] = links.replicas as [ReplicaLinksReport, ReplicaLinksReport]
      links.replicas = [own, { ...other, ahead: [-60_200, -60_000] }]
    },
  },
  'a port that is taken': {
    check: 'listen',
    says: /port \d+ is taken/,
    advises: /end who listens there/,
    args: ['--pre'],
    plant: () => undefined,
  },
  'an address of another machine': {
    check: 'listen',
    says: /192\.0\.2\.1 is no address of this machine/,
    advises: /name one that it has/,
    args: ['--pre'],
    plant: (world) => {
      listenOf(world).address = '192.0.2.1:8150'
    },
  },
  'a socket in a folder that is not there': {
    check: 'listen',
    says: /the folder of .*absent\/ops\.sock does not exist/,
    advises: /make it/,
    args: ['--pre'],
    plant: ({ config, folder }) => {
      config.ops = { socket: join(folder, 'absent', 'ops.sock') }
    },
  },
  'a socket of another kas': {
    check: 'listen',
    says: /another kas listens on .*ops\.sock/,
    advises: /end it, or choose another path/,
    args: ['--pre'],
    plant: () => undefined,
  },
  'a kas that listens elsewhere': {
    check: 'listen',
    says: /127\.0\.0\.1:1: .*ECONNREFUSED/,
    advises: /does kas run with this configuration/,
    plant: (world) => {
      listenOf(world).address = '127.0.0.1:1'
    },
  },
  'gossip on loopback, where others are to be reached': {
    check: 'listen',
    says: /Gossip listens on loopback/,
    advises: /Set private_api\.listen\.address/,
    plant: ({ config }) => {
      config.cluster = { ...config.cluster, discovery: { static: ['10.0.0.9:8156'] } }
    },
  },
  'a proxy that is no URL': {
    check: 'proxies',
    says: /it is no URL of an http or https proxy/,
    advises: /write http:\/\/host:port/,
    plant: ({ env }) => {
      env.HTTPS_PROXY = 'socks5://ada:good-password@10.0.0.1'
    },
  },
  'a proxy whose password is not escaped': {
    check: 'gitlab',
    says: /environment: HTTPS_PROXY: it is no URL of a proxy; .* are written %25, %23, %2F and %40$/,
    advises: /^$/, // the text already says what to do
    plant: ({ config, env }) => {
      config.gitlab = { ...config.gitlab, address: 'https://gitlab.test' }
      env.HTTPS_PROXY = 'http://ada:good-password#w@10.0.0.1:3128'
    },
  },
  'a proxy that is not there': {
    check: 'proxies',
    says: /127\.0\.0\.1:1: .*ECONNREFUSED/,
    advises: /does it run/,
    plant: ({ env }) => {
      env.HTTPS_PROXY = 'http://ada:good-password@127.0.0.1:1'
    },
  },
  'two replicas of one name': {
    check: 'replicas',
    says: /2 replicas have this name/,
    advises: /cluster\.name/,
    plant: ({ status }) => {
      status.members = [member('kas-0', { reach: 'self', instances: 2 })]
    },
  },
  'a replica that is not ready': {
    check: 'replicas',
    says: /it is not ready: agentServer: not ready yet/,
    advises: /log/,
    plant: ({ status }) => {
      status.replica = { ...status.replica, problem: 'agentServer: not ready yet' }
    },
  },
  'a replica that has read another configuration': {
    check: 'replicas',
    says: /it is alone, and the configuration wants others/,
    advises: /start it again/,
    plant: ({ status }) => delete status.members,
  },
  'no replica at the socket': {
    check: 'replicas',
    says: /no kas listens on/,
    advises: /start kas, or say --pre/,
    plant: ({ config, folder }) => {
      config.ops = { socket: join(folder, 'other.sock') }
    },
  },
}

testFaults(faults, sound, /good-password/)

t.test('a configuration that cannot be used: the others are not looked at', async (t) => {
  const { config, run } = await sound(t)
  listenOf({ config } as World).network = 'udp'
  const { code, findings } = await run()
  t.equal(code, 1)
  t.match(findings[0], { check: 'configuration', state: 'failed', text: /agent\.listen\.network: found "udp"/ })
  const others = findings.filter((one) => one.check !== 'configuration')
  t.equal(others.length, checkNames.length - 1)
  t.ok(others.every(({ state }) => state === 'skipped'))
})

t.test('a key that is mistyped is named beside what it leaves out', async (t) => {
  const { config, run } = await sound(t)
  config.gitlab = { ...config.gitlab, adress: config.gitlab?.address, address: undefined }
  const { code, findings } = await run()
  t.equal(code, 1)
  const configured = findings.filter(({ check }) => check === 'configuration')
  t.match(
    configured.find(({ subject }) => subject === 'gitlab.address'),
    { state: 'failed', text: /found nothing/ },
  )
  t.match(
    configured.find(({ subject }) => subject === 'gitlab.adress'),
    { state: 'note', text: /this key is not known, did you mean gitlab\.address\?/ },
  )
})

t.test('Gitaly is asked where GitLab says that it is, with the token of an agent', async (t) => {
  const { gitlab, write, run } = await sound(t)
  const file = await write('agent-token', 'glagent-prod\n')
  gitlab.world.gitaly = { address: 'tcp://127.0.0.1:1', token: 'good-gitaly' }
  const absent = await run(`--agent-token-file=${file}`)
  t.equal(absent.code, 1)
  t.match(absent.stdout, /FAILED +gitaly +agent prod: .*tcp:\/\/127\.0\.0\.1:1: .*ECONNREFUSED.*; is its address/)
  t.notMatch(absent.stdout, /glagent-prod|good-gitaly/)
  await write('agent-token', 'of-nobody')
  const unknown = await run(`--agent-token-file=${file}`)
  t.match(unknown.stdout, /FAILED +gitaly +--agent-token-file: GitLab says nothing to that token/)
})

t.test('GitLab by a proxy: one that lets through, and those that do not are the cause that is named', async (t) => {
  const { config, env, gitlab, run } = await sound(t)
  config.gitlab = { ...config.gitlab, address: 'https://gitlab.test' }
  const ofGitlab = async () => {
    const { findings } = await run()
    return findings.filter(({ check, subject }) => check === 'gitlab' && subject === 'gitlab.address')
  }
  const through = await startConnectProxy(t, Number(new URL(gitlab.address).port))
  env.HTTPS_PROXY = through.url
  const place = new URL(through.url).host
  t.match(await ofGitlab(), [{ state: 'ok', text: `https://gitlab.test by the proxy ${place}: GitLab answers` }])
  t.ok(through.asked.length > 0)
  t.ok(through.asked.every((one) => one === 'gitlab.test:443'))
  const refusals = {
    '407 Proxy Authentication Required': /wants a user and a password/,
    '403 Forbidden': /does not let kas through/,
    '502 Bad Gateway': /does not reach gitlab\.address/,
  }
  for (const [status, advice] of Object.entries(refusals)) {
    env.HTTPS_PROXY = (await startConnectProxy(t, status)).url.replace('//', '//ada:good-password@')
    const found = await ofGitlab()
    t.match(found, [{ state: 'failed', text: /by the proxy 127\.0\.0\.1:\d+: /, advice }], status)
    t.notMatch(JSON.stringify(found), 'good-password')
  }
  config.gitlab = { ...config.gitlab, address: 'http://gitlab.test' }
  env.HTTP_PROXY = (await startConnectProxy(t, '407 Proxy Authentication Required')).url
  t.match(await ofGitlab(), [{ state: 'failed', advice: /HTTP_PROXY for http\) wants a user/ }], 'a plain request')
  config.gitlab = { ...config.gitlab, address: 'https://gitlab.test' }
  env.HTTPS_PROXY = 'http://127.0.0.1:1'
  t.match(await ofGitlab(), [{ state: 'failed', text: /ECONNREFUSED/, advice: /^the proxy is not reached/ }])
  env.NO_PROXY = 'other.test,.test'
  t.match(
    await ofGitlab(),
    [{ state: 'failed', text: /gitlab\.test: .*ENOTFOUND|EAI_AGAIN/, advice: /DNS/ }],
    'none is asked',
  )
})

t.test('where all that is asked never answers, it ends, and says so of each', async (t) => {
  const { config, folder, write } = await sound(t)
  const silent = createServer()
  const socket = join(folder, 'silent.sock')
  const ops = createServer()
  silent.listen(0, '127.0.0.1')
  ops.listen(socket)
  await Promise.all([once(silent, 'listening'), once(ops, 'listening')])
  t.teardown(() => [silent, ops].map((one) => one.close()))
  const address = `https://127.0.0.1:${(silent.address() as AddressInfo).port}`
  config.gitlab = { ...config.gitlab, address }
  config.ops = { socket }
  const [file, token] = [await write('kas.yaml', JSON.stringify(config)), await write('agent-token', 'glagent-prod')]
  const { execPath: command } = process
  const program = join(import.meta.dirname, '../../../../src/kas/main.ts')
  const named = [`--configuration-file=${file}`, `--agent-token-file=${token}`, `--kubernetes-api-url=${address}/k8s`]
  const begin = performance.now()
  const ended = promisify(execFile)(command, [program, 'doctor', ...named, '--idle=60', '--output=json'])
  const { code, stdout } = (await ended.catch((error) => error)) as { code: number; stdout: string }
  t.ok(performance.now() - begin < patience(hangMs), `${performance.now() - begin} ms`)
  t.equal(code, 1)
  const { findings } = JSON.parse(stdout) as { findings: Finding[] }
  const asked = findings.filter(({ check }) =>
    ['gitlab', 'gitaly', 'clocks', 'replicas', 'front', 'idle'].includes(check),
  )
  t.strictSame([...new Set(asked.map(({ check }) => check))].length, 6)
  t.strictSame(
    asked.filter(({ state }) => state === 'ok'),
    [],
  )
})

t.test('from where each address is', async (t) => {
  const { config, env, run } = await sound(t)
  delete config.observability
  env.KAS_CLUSTER_LISTEN = '127.0.0.1:1'
  const { stdout } = await run()
  t.match(stdout, / listen +agent\.listen\.address \(line \d+\): somebody listens/)
  t.match(stdout, / listen +observability\.listen\.address \(default\): .*127\.0\.0\.1:8151/)
  t.match(stdout, / listen +cluster\.listen\.address \(KAS_CLUSTER_LISTEN\): 127\.0\.0\.1:1: /)
})

t.test('what others say is cut', async (t) => {
  const world = await sound(t)
  reachedBy(world, 'kas-0', { reach: 'down', address: 'x'.repeat(1_000_000) })
  const { stdout, findings } = await world.run()
  t.ok(stdout.length < 10_000, `${stdout.length}`)
  t.ok(JSON.stringify(findings).length < 20_000)
  t.match(stdout, /calls do not reach kas-1 at x{500,600}\.\.\.; open 8155/)
})

t.test('hostile text steers no terminal', async (t) => {
  const world = await sound(t)
  reachedBy(world, 'kas-0', { reach: 'down', address: 'bad\u001b[2J' })
  const { stdout } = await world.run()
  t.notMatch(stdout, '\u001b')
  t.match(stdout, 'bad?[2J')
})

t.test('doc/operate/doctor.md has a section for each check', async (t) => {
  const text = await readFile(join(import.meta.dirname, '../../../../doc/operate/doctor.md'), 'utf8')
  const [part = ''] = text.split('\n# agentk doctor\n')
  const headings = [...part.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading)
  t.strictSame(headings, checkNames)
})
