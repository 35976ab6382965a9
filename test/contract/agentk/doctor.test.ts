import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { create, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { Authority } from '../../../dev/certificates.ts'
import { getConfigurationMethod } from '../../../src/agentk/configuration/configuration.ts'
import { checkNames, doctor } from '../../../src/agentk/doctor/doctor.ts'
import type { Finding } from '../../../src/lib/doctor/findings.ts'
import { Code, KasError } from '../../../src/lib/errors.ts'
import { ConfigurationResponseSchema } from '../../../src/proto/gen/agent_configuration_pb.ts'
import { startConnectProxy } from '../../support/connect-proxy.ts'
import { type DoctorFault, testFaults } from '../../support/doctor-faults.ts'
import { patience } from '../../support/slowness.ts'
import { listen } from './api-server.ts'
import { FakeKas, listenAs } from './fake-kas.ts'

/** agentk with a sound kas and a sound API server. agentk doctor names each planted fault and the remedy. */

/** ms; kas, then the API server, each with 10 s */
const hangMs = 26_000
const version = { version: '1.2.3', commit: 'abc' }
const authority = await Authority.create('root of the test')

interface Attributes {
  readonly verb: string
  readonly group: string
  readonly resource: string
  readonly subresource?: string
  readonly name?: string
}

interface World {
  readonly folder: string
  readonly kas: FakeKas
  /** flags, without `--` */
  readonly flags: Record<string, string>
  readonly env: Record<string, string>
  /** denied rights, such as `impersonate users` */
  readonly denied: Set<string>
  /** the agentk that runs in the same container */
  running?: { args: string[]; env: Record<string, string> }
  /** name of the only Lease that may be read and updated; undefined: all Leases */
  lease?: string
  /** blocks of modules in the agent's configuration */
  readonly blocks: Record<string, Uint8Array<ArrayBuffer>>
  /** attributes of the access reviews */
  readonly reviewed: Attributes[]
  /** status of each answer of the API server */
  apiStatus: number
  /** offset of the API server's clock, ms */
  aheadMs: number
  run(...args: string[]): Promise<{ code: number; stdout: string; findings: Finding[] }>
}

async function sound(t: Test): Promise<World> {
  const folder = await mkdtemp(join(tmpdir(), 'agentk-doctor-'))
  t.teardown(() => rm(folder, { recursive: true, force: true }))
  const kas = new FakeKas()
  const blocks: World['blocks'] = {}
  kas.handlers.set(getConfigurationMethod, async (stream) => {
    if (String(stream.metadata.authorization) !== 'Bearer good-token') {
      throw new KasError({ code: 'UNAUTHENTICATED' })
    }
    const response = { configuration: { agentId: 42n, moduleBlock: blocks }, commitId: 'c' }
    void stream.send(toBinary(ConfigurationResponseSchema, create(ConfigurationResponseSchema, response)))
    await new Promise((resolve) => stream.signal.addEventListener('abort', resolve))
  })
  const kasPort = await listenAs(t, kas, 'grpc')
  const denied = new Set<string>()
  const server = createServer((request, response) => void answer(request, response))
  const apiPort = await listen(server)
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  await writeFile(join(folder, 'token'), 'good-token\n')
  await writeFile(join(folder, 'ca.crt'), authority.certificate)
  const world: World = {
    folder,
    kas,
    flags: {
      'kas-address': `grpc://127.0.0.1:${kasPort}`,
      'token-file': join(folder, 'token'),
      'kas-ca-cert-file': join(folder, 'ca.crt'),
      server: `http://127.0.0.1:${apiPort}`,
      token: 'of-the-cluster',
    },
    env: { POD_NAME: 'agentk-0', POD_NAMESPACE: 'agentk' },
    denied,
    blocks,
    reviewed: [],
    apiStatus: 200,
    aheadMs: 0,
    run: async (...args) => {
      const flags = Object.entries(world.flags).map(([name, value]) => `--${name}=${value}`)
      let stdout = ''
      const write = (text: string) => {
        stdout += text
      }
      const context = { env: world.env, version, stdout: { write }, running: world.running }
      await doctor([...flags, ...args, '--output', 'json'], context)
      const { findings } = JSON.parse(stdout) as { findings: Finding[] }
      stdout = ''
      const code = await doctor([...flags, ...args], context)
      return { code, stdout, findings }
    },
  }
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const date = new Date(Date.now() + world.aheadMs).toUTCString()
    const [, namespace = ''] = /\/namespaces\/([^/]+)\/leases\?dryRun=All$/.exec(request.url ?? '') ?? []
    if (namespace !== '') return void response.writeHead(namespace === 'agentk' ? 201 : 404).end('{}')
    response.writeHead(world.apiStatus, { 'Content-Type': 'application/json', Date: date })
    if (request.url === '/version') return void response.end('{"major":"1","minor":"35","gitVersion":"v1.35.0"}')
    const { spec } = JSON.parse((await request.toArray()).join('')) as {
      spec: { resourceAttributes: Attributes }
    }
    const { verb, resource, name } = spec.resourceAttributes
    world.reviewed.push(spec.resourceAttributes)
    const isLimited = world.lease !== undefined && resource === 'leases' && verb !== 'create'
    const allowed = !denied.has(`${verb} ${resource}`) && !(isLimited && name !== world.lease)
    response.end(JSON.stringify({ status: { allowed } }))
  }
  return world
}

t.test('a kas that is reached without TLS is said, unless it is on this machine', async (t) => {
  const { run, flags } = await sound(t)
  const saidOf = async (address: string) => {
    flags['kas-address'] = address
    const { findings } = await run()
    return findings.filter(({ check, subject, state }) => check === 'authority' && subject && state === 'note')
  }
  for (const scheme of ['ws', 'grpc']) {
    const said = await saidOf(`${scheme}://0.0.0.0:1`)
    const text = new RegExp(`^${scheme}://0\\.0\\.0\\.0:1 has no TLS: the agent's token`)
    t.match(said, [{ subject: '--kas-address', text, advice: new RegExp(`${scheme === 'ws' ? 'wss' : 'grpcs'}://`) }])
    t.strictSame(await saidOf(`${scheme}://127.0.0.1:1`), [])
  }
})

t.test('where all is well nothing else is said, and no token', async (t) => {
  const { run, kas, denied } = await sound(t)
  // denied by the chart's default role
  for (const resource of ['serviceaccounts', 'uids']) denied.add(`impersonate ${resource}`)
  const { code, stdout, findings } = await run()
  t.equal(code, 0, stdout)
  t.strictSame([...new Set(findings.map(({ check }) => check))], checkNames)
  const others = findings.filter(({ state }) => state !== 'ok')
  t.match(others, [
    { check: 'proxies', state: 'skipped' },
    { check: 'idle', state: 'skipped' },
    { check: 'rights', state: 'note', subject: 'beyond the lists: impersonate users', text: /whoever has the token/ },
    {
      check: 'rights',
      state: 'note',
      subject: 'beyond the lists: impersonate groups system:masters',
      text: /cluster-admin/,
    },
  ])
  t.equal(others.length, 4, 'nothing else')
  t.match(stdout, /kas {2,}--kas-address: .*: kas takes the token: it is of agent 42\n/)
  t.match(stdout, /cluster .*Kubernetes v1\.35\.0/)
  t.notMatch(stdout, /good-token|of-the-cluster/)
  t.match(stdout, /authority .*ca\.crt holds certificates that can be read; their dates are not checked/)
  t.equal(kas.connects, 0, 'no tunnel was opened')
})

t.test('in the container of agentk its flags are taken, those that are given count before them', async (t) => {
  const world = await sound(t)
  const all = Object.entries(world.flags).map(([name, value]) => `--${name}=${value}`)
  world.running = { args: [...all.slice(1), '--kas-address=grpc://127.0.0.1:1'], env: world.env }
  const own = world.flags['kas-address'] as string
  for (const name of Object.keys(world.flags)) delete world.flags[name]
  for (const name of Object.keys(world.env)) delete world.env[name]
  world.running.env = { POD_NAME: 'agentk-0', POD_NAMESPACE: 'agentk' }
  const { code, stdout } = await world.run(`--kas-address=${own}`)
  t.equal(code, 0, stdout)
  t.match(stdout, /configuration .*as process 1, .*: --token-file, --kas-ca-cert-file, .*, POD_NAMESPACE, POD_NAME\n/)
  t.notMatch(stdout, /good-token|of-the-cluster/)
})

t.test('a Role that names the Lease of the agent is enough', async (t) => {
  const world = await sound(t)
  world.lease = 'agent-42-lock'
  const { code, stdout } = await world.run()
  t.equal(code, 0, stdout)
  t.match(stdout, 'ok       rights         get leases.coordination.k8s.io agent-42-lock in agentk: allowed')
  world.lease = 'agent-43-lock'
  const { findings } = await world.run()
  t.strictSame(
    findings.filter(({ state }) => state === 'failed').map(({ subject }) => subject),
    ['get', 'update'].map((verb) => `${verb} leases.coordination.k8s.io agent-42-lock in agentk`),
    'that of another agent is not',
  )
})

t.test('without the id of the agent a Role that names its Lease is not called wrong', async (t) => {
  const world = await sound(t)
  world.lease = 'agent-42-lock'
  world.kas.handlers.clear()
  const { findings } = await world.run()
  const rights = findings.filter(({ check, subject = '' }) => check === 'rights' && subject.includes('leases'))
  t.match(rights, [
    { state: 'note', text: 'not allowed', advice: /a Role that names the Lease of the agent is not seen/ },
    { state: 'ok' },
    { state: 'note' },
  ])
})

t.test('the right to list APIServices is asked for where the configuration has sources of GitOps', async (t) => {
  const { run, blocks, reviewed } = await sound(t)
  const isAsked = () => reviewed.some(({ resource }) => resource === 'apiservices')
  await run()
  t.equal(isAsked(), false)
  blocks.gitops = Buffer.from('{}')
  const { findings } = await run()
  t.match(
    findings.find(({ subject }) => subject === 'list apiservices.apiregistration.k8s.io'),
    { check: 'rights', state: 'ok' },
  )
  t.equal(isAsked(), true)
})

t.test('a stream that stays idle, and one that kas ends', async (t) => {
  const world = await sound(t)
  const lived = await world.run('--idle', '1')
  t.equal(lived.code, 0, lived.stdout)
  t.match(lived.stdout, /ok +idle +--kas-address: an idle stream has lived for 1 s\n/)
  const answer = world.kas.handlers.get(getConfigurationMethod)
  world.kas.handlers.set(getConfigurationMethod, async (stream) => {
    void answer?.(stream) // sends the first message, then the stream ends
    throw new KasError({ code: 'STATUS', grpc: Code.UNAVAILABLE, message: 'a front has enough' })
  })
  const { findings } = await world.run('--idle=30')
  t.match(
    findings.find(({ check }) => check === 'idle'),
    { state: 'failed', text: /an idle stream was ended after 0 s: .*a front has enough/, advice: /proxy_read_timeout/ },
  )
  for (const wrong of ['0', 'long', '']) await t.rejects(world.run('--idle', wrong), { message: /--idle "/ })
})

t.test('the extra keys of calls are asked for as the API server asks itself', async (t) => {
  const { run, reviewed } = await sound(t)
  await run()
  const [extra] = reviewed.filter(({ resource }) => resource === 'userextras')
  t.match(extra, { verb: 'impersonate', group: 'authentication.k8s.io', subresource: 'agent.gitlab.com/id' })
})

const faults: Readonly<Record<string, DoctorFault<World>>> = {
  'a flag that is not known': {
    check: 'configuration',
    says: /unknown flag --kas-adress, did you mean --kas-address\?/,
    advises: /--help/,
    plant: ({ flags }) => {
      flags['kas-adress'] = 'x'
    },
  },
  'two tokens': {
    check: 'configuration',
    says: /--token-file and AGENTK_TOKEN are both set/,
    advises: /--help/,
    plant: ({ env }) => {
      env.AGENTK_TOKEN = 'x'
    },
  },
  'an address without its scheme': {
    check: 'configuration',
    says: /expected grpc:\/\/, grpcs:\/\/, ws:\/\/ or wss:\/\//,
    advises: /--help/,
    plant: ({ flags }) => {
      flags['kas-address'] = 'kas.example.com'
    },
  },
  'a token with a line too many': {
    check: 'token',
    says: /it holds a space, a line break/,
    advises: /the token alone/,
    plant: ({ folder }) => writeFile(join(folder, 'token'), 'good-token\n\n'),
  },
  'a token that kas does not know': {
    check: 'kas',
    says: /unauthenticated/,
    advises: /kas does not take this token/,
    plant: ({ folder }) => writeFile(join(folder, 'token'), 'other-token'),
  },
  'an authority that is a key': {
    check: 'authority',
    says: /found no certificate, allowed: PEM/,
    advises: /certificate of the authority/,
    plant: async ({ folder }) => {
      const { key } = await authority.issueServing({ dns: ['kas'], ip: [] })
      await writeFile(join(folder, 'ca.crt'), key)
    },
  },
  'a kas that is not there': {
    check: 'kas',
    says: /ECONNREFUSED/,
    advises: /Nothing listens at/,
    plant: ({ flags }) => {
      flags['kas-address'] = 'grpc://127.0.0.1:1'
    },
  },
  'TLS where there is none': {
    check: 'kas',
    says: /127\.0\.0\.1/,
    advises: /No TLS is spoken at/,
    plant: ({ flags }) => {
      flags['kas-address'] = flags['kas-address']?.replace('grpc:', 'grpcs:') ?? ''
    },
  },
  'a server that is no kas': {
    check: 'kas',
    says: /127\.0\.0\.1/,
    advises: /What answers does not serve agents/,
    plant: ({ kas }) => kas.handlers.clear(),
  },
  'an answer without a configuration': {
    check: 'kas',
    says: /the answer has no configuration/,
    advises: /is it kas that answers there/,
    plant: ({ kas }) =>
      kas.handlers.set(getConfigurationMethod, async (stream) => {
        const response = { commitId: 'c' }
        void stream.send(toBinary(ConfigurationResponseSchema, create(ConfigurationResponseSchema, response)))
        await new Promise((resolve) => stream.signal.addEventListener('abort', resolve))
      }),
  },
  'an API server that is not there': {
    check: 'cluster',
    says: /127\.0\.0\.1:1: /,
    advises: /Nothing listens at/,
    plant: ({ flags }) => {
      flags.server = 'http://127.0.0.1:1'
    },
  },
  'an API server that does not know the account': {
    check: 'cluster',
    says: /401/,
    advises: /./,
    plant: (world) => {
      world.apiStatus = 401
    },
  },
  'a clock that is off by a minute': {
    check: 'clocks',
    says: /the API server's clock is (59|60|61) s behind this one/,
    advises: /time server/,
    plant: (world) => {
      world.aheadMs = -60_000
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
  'a Namespace that the cluster does not have': {
    check: 'rights',
    says: /the cluster has no Namespace any$/,
    advises: /^set POD_NAMESPACE to one that it has, or make it: kubectl create namespace any$/,
    plant: ({ env }) => {
      env.POD_NAMESPACE = 'any'
    },
  },
  'no right to the Lease': {
    check: 'rights',
    says: /not allowed/,
    advises: /no pod leads/,
    plant: ({ denied }) => denied.add('update leases'),
  },
  'no right to impersonate': {
    check: 'rights',
    state: 'note',
    says: /not allowed/,
    advises: /access_as need it/,
    plant: ({ denied }) => denied.add('impersonate users'),
  },
  'a listed name that the cluster refuses': {
    check: 'rights',
    says: /the cluster refuses it: agentk's account has no right to impersonate serviceaccounts deployer in shop/,
    advises: /allow it in a role, or take the name from the list/,
    plant: ({ denied, flags }) => {
      flags['may-impersonate'] = 'serviceaccount:shop:deployer'
      denied.add('impersonate serviceaccounts')
    },
  },
  'no right to list APIServices, with sources of GitOps': {
    check: 'rights',
    state: 'note',
    says: /not allowed/,
    advises: /GitOps sends dry runs of no kinds but those of Kubernetes: set rbac\.gitops of the chart/,
    plant: ({ denied, blocks }) => {
      blocks.gitops = Buffer.from('{}')
      denied.add('list apiservices')
    },
  },
  'callers who may be anybody': {
    check: 'rights',
    state: 'note',
    says: /every caller that acts as the agent can act as cluster-admin/,
    advises: /in place of any/,
    plant: ({ flags }) => {
      flags['callers-may-impersonate'] = 'any'
    },
  },
  'no right to impersonate with extra keys': {
    check: 'rights',
    state: 'note',
    says: /not allowed/,
    advises: /a role that names some is not seen here/,
    plant: ({ denied }) => denied.add('impersonate userextras'),
  },
}

t.test('kas by a proxy: one that lets through, and those that do not are the cause that is named', async (t) => {
  const { flags, env, run } = await sound(t)
  const port = Number(new URL(flags['kas-address'] as string).port)
  flags['kas-address'] = 'grpc://kas.test:8150'
  const ofKas = async () => (await run()).findings.filter(({ check }) => check === 'kas')
  const through = await startConnectProxy(t, port)
  env.HTTPS_PROXY = through.url
  t.match(await ofKas(), [{ state: 'ok', text: /kas takes the token/ }])
  t.ok(through.asked.length > 0)
  const refusals = {
    '407 Proxy Authentication Required': /Give the proxy its user and password/,
    '403 Forbidden': /does not let agentk through to kas/,
    '503 Service Unavailable': /does not reach kas/,
  }
  for (const [status, advice] of Object.entries(refusals)) {
    env.HTTPS_PROXY = (await startConnectProxy(t, status)).url.replace('//', '//ada:good-password@')
    const found = await ofKas()
    const text = new RegExp(`proxy 127\\.0\\.0\\.1:\\d+ answered ${status.slice(0, 3)} to CONNECT kas\\.test:8150`)
    t.match(found, [{ state: 'failed', text, advice }], status)
    t.notMatch(JSON.stringify(found), 'good-password')
  }
  env.HTTPS_PROXY = 'http://127.0.0.1:1'
  t.match(await ofKas(), [
    { state: 'failed', text: /proxy 127\.0\.0\.1:1 cannot be used: .*ECONNREFUSED/, advice: /^Check the proxy/ },
  ])
  const { url } = await startConnectProxy(t, undefined)
  env.HTTPS_PROXY = url
  t.match(await ofKas(), [
    { state: 'failed', text: `no connection within 10000 ms, by the proxy ${new URL(url).host}` },
  ])
})

t.test('where all that is asked never answers, it ends, and says so of each', async (t) => {
  const { flags, folder } = await sound(t)
  const silent = createTcpServer()
  const port = await listen(silent as unknown as Server)
  t.teardown(() => silent.close())
  const program = join(import.meta.dirname, '../../../src/agentk/main.ts')
  const asked = { ...flags, 'kas-address': `wss://127.0.0.1:${port}/`, server: `https://127.0.0.1:${port}` }
  const args = Object.entries(asked).map(([name, value]) => `--${name}=${value}`)
  const env = { ...process.env, POD_NAME: 'agentk-0', POD_NAMESPACE: 'agentk' }
  const begin = performance.now()
  const ended = promisify(execFile)(process.execPath, [program, 'doctor', ...args, '--idle=60', '--output=json'], {
    env,
  })
  const { code, stdout } = (await ended.catch((error) => error)) as { code: number; stdout: string }
  t.ok(performance.now() - begin < patience(hangMs), `${performance.now() - begin} ms`)
  t.equal(code, 1)
  const { findings } = JSON.parse(stdout) as { findings: Finding[] }
  const ok = findings.filter(({ state }) => state === 'ok').map(({ check }) => check)
  t.strictSame(ok, ['configuration', 'token', 'authority'], folder)
})

testFaults(faults, sound, /good-token|of-the-cluster|good-password/)

t.test('hostile text steers no terminal', async (t) => {
  const { flags, folder, run } = await sound(t)
  flags['token-file'] = join(folder, 'bad\u001b[2J')
  const { code, stdout, findings } = await run()
  t.equal(code, 1)
  t.match(JSON.stringify(findings), 'bad')
  t.notMatch(stdout, '\u001b')
  t.match(stdout, 'bad?[2J')
})

t.test('doc/operate/doctor.md has a section for each check', async (t) => {
  const text = await readFile(join(import.meta.dirname, '../../../doc/operate/doctor.md'), 'utf8')
  const [, part = ''] = text.split('\n# agentk doctor\n')
  t.strictSame(
    [...part.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading),
    checkNames.map((check) => `agentk: ${check}`),
  )
})
