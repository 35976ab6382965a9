import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { promisify } from 'node:util'
import { create, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { getConfigurationMethod } from '../../../src/agentk/configuration/configuration.ts'
import { registerMethod, unregisterMethod } from '../../../src/agentk/modules/registrar/module.ts'
import { readVersion } from '../../../src/lib/version.ts'
import { ConfigurationResponseSchema } from '../../../src/proto/gen/agent_configuration_pb.ts'
import {
  RegisterRequestSchema,
  RegisterResponseSchema,
  UnregisterRequestSchema,
  UnregisterResponseSchema,
} from '../../../src/proto/gen/agent_registrar_pb.ts'
import { encodeHttpRequest, kubernetesApiMethod } from '../../../src/proto/http/http-over-grpc.ts'
import { mainOf } from '../../support/programs.ts'
import { unaryHandler } from '../../support/unary-handler.ts'
import { listen } from './api-server.ts'
import { FakeKas, listenAs } from './fake-kas.ts'
import { requestHeader } from './http-call.ts'

const pod = { POD_NAMESPACE: 'default', POD_NAME: 'agentk-0' }

/** Starts agentk. The end of the test kills it. */
function startAgentk(t: Test, args: string[]) {
  const env = { PATH: process.env.PATH, ...pod, AGENTK_TOKEN: 'secret-token' }
  const child = spawn(process.execPath, [mainOf('agentk'), ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] })
  const log: string[] = []
  child.stderr.setEncoding('utf8').on('data', (text: string) => log.push(text))
  const exit = once(child, 'exit') as Promise<[number | null, string | null]>
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exit
  })
  return { child, exit, log }
}

/** Runs agentk to its end. */
async function run(args: string[], env: NodeJS.ProcessEnv = pod) {
  const options = { env: { PATH: process.env.PATH, ...env }, timeout: 20_000 }
  return promisify(execFile)(process.execPath, [mainOf('agentk'), ...args], options).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error) => ({ code: error.code as number, stdout: error.stdout as string, stderr: error.stderr as string }),
  )
}

t.test('--version, --help, and what cannot be used', async (t) => {
  t.same(await run(['--version']), { code: 0, stdout: `agentk ${readVersion().version}\n`, stderr: '' })
  t.match(await run(['--help']), { code: 0, stdout: /--kas-address/, stderr: '' })
  for (const flag of ['--version', '--help', '-h']) {
    t.same(await run(['doctor', flag]), await run([flag]), `doctor ${flag} checks nothing`)
  }
  t.match(await run(['--kas-adress=x']), { code: 2, stderr: /unknown flag --kas-adress, did you mean --kas-address\?/ })
  t.match(await run(['--kas-address=grpc://x'], {}), { code: 2, stderr: /token is missing/ })
  const env = { AGENTK_TOKEN: 'x' }
  t.match(await run(['--kas-address=grpc://x'], env), {
    code: 2,
    stderr: /POD_NAMESPACE is not set.* elsewhere to a Namespace that the cluster has/,
  })
  t.match(await run(['--kas-address=grpc://x'], { ...pod, ...env }), { code: 2, stderr: /No cluster is named/ })
})

t.test('an address that is taken, and a certificate that is not there, are told in a line', async (t) => {
  const taken = createServer()
  const port = await listen(taken)
  t.teardown(() => taken.close())
  const args = ['--kas-address=grpc://127.0.0.1:1', '--server=http://127.0.0.1:1', '--token=x']
  const env = { ...pod, AGENTK_TOKEN: 'x' }
  const { code, stderr } = await run([...args, `--observability-listen-address=127.0.0.1:${port}`], env)
  t.equal(code, 1)
  const flag = `--observability-listen-address 127.0.0.1:${port}`
  t.match(stderr, new RegExp(`^agentk: ${flag}: port ${port} is taken: .* or choose another port\n$`))
  const files = ['--observability-cert-file=/absent.crt', '--observability-key-file=/absent.key']
  t.match(await run([...args, '--observability-listen-address=127.0.0.1:0', ...files], env), {
    code: 1,
    stderr: /^agentk: \/absent\.crt: cannot be used with key \/absent\.key: ENOENT.*\n$/,
  })
})

// wire: agentk.lease, agentk.unregister
t.test('serves, registers, leads, and leaves in order', { timeout: 60_000 }, async (t) => {
  const kas = new FakeKas()
  const events: string[] = []
  kas.handlers.set(getConfigurationMethod, async (stream) => {
    const response = { configuration: { agentId: 42n, gitlabExternalUrl: 'x' }, commitId: 'c' }
    void stream.send(toBinary(ConfigurationResponseSchema, create(ConfigurationResponseSchema, response)))
    await new Promise((resolve) => stream.signal.addEventListener('abort', resolve))
  })
  const registered = Promise.withResolvers<void>()
  kas.handlers.set(
    registerMethod,
    unaryHandler(RegisterRequestSchema, RegisterResponseSchema, async (request) => {
      events.push(`register ${request.agentMeta?.podName} ${request.agentMeta?.kubernetesVersion?.minor}`)
      registered.resolve()
      return create(RegisterResponseSchema)
    }),
  )
  kas.handlers.set(
    unregisterMethod,
    unaryHandler(UnregisterRequestSchema, UnregisterResponseSchema, async (request) => {
      events.push(`unregister ${request.agentMeta?.podName}`)
      return create(UnregisterResponseSchema)
    }),
  )
  const slow = Promise.withResolvers<void>()
  const leased = Promise.withResolvers<void>()
  const leases: string[] = []
  const api = createServer(async (request, response) => {
    response.setHeader('Content-Type', 'application/json')
    if (request.url === '/version') return void response.end('{"major":"1","minor":"35"}')
    if (request.url === '/slow') {
      response.write('{')
      await slow.promise
      return void response.end('}')
    }
    if (request.method === 'GET') return void response.writeHead(404).end('{}')
    const lease = JSON.parse((await request.toArray()).join(''))
    leases.push(`${request.method} ${request.url} ${lease.metadata.name} ${lease.spec.holderIdentity.split('_')[0]}`)
    lease.metadata.resourceVersion = String(leases.length)
    response.end(JSON.stringify(lease))
    leased.resolve()
  })
  const apiPort = await listen(api)
  t.teardown(() => {
    api.closeAllConnections()
    api.close()
  })
  const kasPort = await listenAs(t, kas, 'grpc')
  const agentk = startAgentk(t, [
    `--kas-address=grpc://127.0.0.1:${kasPort}`,
    `--server=http://127.0.0.1:${apiPort}`,
    '--observability-listen-address=127.0.0.1:0',
  ])
  await registered.promise
  t.same(events, ['register agentk-0 35'])
  await leased.promise
  const namespace = '/apis/coordination.k8s.io/v1/namespaces/default/leases'
  t.equal(leases[0], `POST ${namespace} agent-42-lock agentk-0`)

  const tunnel = await kas.take()
  tunnel.begin(kubernetesApiMethod)
  tunnel.message(requestHeader({ urlPath: '/slow' }))
  tunnel.message(encodeHttpRequest.trailer)
  tunnel.closeSend()
  t.equal((await tunnel.next())?.kind, 'header')
  agentk.child.kill('SIGTERM')
  await once(agentk.child.stderr, 'data') // it logs that it stops
  slow.resolve()
  let last: string | undefined
  for (let message = await tunnel.next(); message; message = await tunnel.next()) last = message.kind
  t.equal(last, 'trailer', 'the running call ended by itself')
  tunnel.end()
  t.same(await agentk.exit, [0, null])
  t.equal(events.at(-1), 'unregister agentk-0')
  t.notMatch(agentk.log.join(''), /secret-token/)
})

t.test('a second signal ends at once', { timeout: 60_000 }, async (t) => {
  const kas = new FakeKas()
  const kasPort = await listenAs(t, kas, 'grpc')
  const api = createServer((_, response) => void response.write('endless'))
  const apiPort = await listen(api)
  t.teardown(() => {
    api.closeAllConnections()
    api.close()
  })
  const agentk = startAgentk(t, [
    `--kas-address=grpc://127.0.0.1:${kasPort}`,
    `--server=http://127.0.0.1:${apiPort}`,
    '--observability-listen-address=127.0.0.1:0',
  ])
  const tunnel = await kas.take()
  tunnel.begin(kubernetesApiMethod)
  tunnel.message(requestHeader())
  tunnel.message(encodeHttpRequest.trailer)
  t.equal((await tunnel.next())?.kind, 'header')
  agentk.child.kill('SIGTERM')
  while (!agentk.log.join('').includes('Stopping')) await once(agentk.child.stderr, 'data')
  agentk.child.kill('SIGTERM')
  t.same(await agentk.exit, [143, null])
})
