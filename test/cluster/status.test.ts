import { stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { create, toBinary } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { runCli } from '../../src/kas/cli/cli.ts'
import { RegisterRequestSchema } from '../../src/proto/gen/agent_registrar_pb.ts'
import { callUnary, connect, goodMetadata, metadataOf } from '../contract/rails-server/start-server.ts'
import { eventually } from '../support/eventually.ts'
import { echoMethod, FakeAgent } from '../support/fake-agent.ts'
import { agentToken, type KasApp, startKasApps } from './kas-apps.ts'

/** Runs `kas status` or `kas route` on any of three replicas. */

async function kas(command: string, socket?: string) {
  const out = { code: 0, stdout: '', stderr: '' }
  const sink = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      out[name] += text
    },
  })
  out.code = await runCli(command.split(' '), {
    env: socket === undefined ? {} : { KAS_OPS_SOCKET: socket },
    stdout: sink('stdout'),
    stderr: sink('stderr'),
    stdin: Readable.from([]),
  })
  return out
}

/** Connects a pod with one idle tunnel to the replica, and registers it there. */
async function podAt(t: Test, replica: KasApp) {
  const agent = await FakeAgent.dial(replica.port('Agentk API'), agentToken)
  t.teardown(() => agent.close())
  const client = connect(t, replica.port('Agentk API'))
  const agentMeta = { version: 'v18.5.0', podName: 'evil\u001b[2Jpod' }
  const request = toBinary(RegisterRequestSchema, create(RegisterRequestSchema, { agentMeta, podId: 7n }))
  const metadata = metadataOf({ authorization: `Bearer ${agentToken}` })
  await callUnary(client, '/gitlab.agent.agent_registrar.rpc.AgentRegistrar/Register', request, metadata)
  return { agent, tunnel: agent.open() }
}

t.test('each replica reports the same of all, and how it would route a call', async (t) => {
  const replicas = (await startKasApps(t, 3)) as [KasApp, KasApp, KasApp]
  const { agent, tunnel } = await podAt(t, replicas[1])
  const agents: string[] = []
  for (const { name, socket } of replicas) {
    t.equal((await stat(socket)).mode & 0o777, 0o600)
    const { stdout } = await eventually(async () => {
      const shown = await kas('status', socket)
      if (!/^42 +kas-1 \(1\) +1 /m.test(shown.stdout) || / down /.test(shown.stdout)) throw new Error(shown.stdout)
      return shown
    })
    t.match(stdout, new RegExp(`^${name}, kas 0\\.1\\.0, ready\n`))
    for (const other of ['kas-0', 'kas-1', 'kas-2']) {
      const reach = other === name ? 'self' : 'reachable'
      t.match(stdout, new RegExp(`^${other} +serving +0\\.1\\.0 +127\\.0\\.0\\.1:\\d+ +${reach} +yes +0 `, 'm'), name)
    }
    agents.push(stdout.split('\n\n')[2] ?? '')
    const inFull = await kas('status --agent 42', socket)
    t.match(inFull.stdout, /^kas-1 +connection +- +home +- +1 +20/m)
    t.match(
      inFull.stdout,
      /^kas-1 +registration +evil\?\[2Jpod +- +v18\.5\.0 +- +20/m,
      'what a pod tells steers nothing',
    )
  }
  t.equal(new Set(agents).size, 1, 'holders and ranks are the same everywhere')

  const routes = () => Promise.all(replicas.map(({ socket }) => kas(`route --agent 42 --method ${echoMethod}`, socket)))
  const [first, second, third] = (await routes()).map(({ stdout }) => stdout)
  t.match(second, /^a tunnel of kas-1: an idle tunnel of this replica serves the method$/m)
  for (const elsewhere of [first, third]) {
    t.match(
      elsewhere,
      /^handed over to kas-1: the agent has no tunnel here; kas-1 is the only other holder: reachable/m,
    )
    t.match(elsewhere, /^kas-1 +serving +reachable +0 +yes$/m)
  }
  const { client, ended } = await busyCall(t, replicas[0])
  t.match(await tunnel.next(), { kind: 'requestInfo' })
  const [ofEntry, ofHolder] = (await routes()).map(({ stdout }) => stdout)
  t.match(ofEntry, /^kas-1 +serving +reachable +1 +yes$/m, 'the call in flight')
  t.match(ofHolder, /^waits at kas-1: every tunnel here that serves the method is busy$/m)
  client.close()
  agent.close()
  await ended

  const absent = await kas('route --agent 43 -o json', replicas[0].socket)
  t.match(JSON.parse(absent.stdout), { agent: 43, verdict: 'not-connected', entry: 'kas-0', ways: [] })
})

async function busyCall(t: Test, replica: KasApp) {
  const client = connect(t, replica.port('API'))
  const metadata = await goodMetadata({ 'kas-hop-routing-agent-id': '42' })
  return { client, ended: callUnary(client, echoMethod, Buffer.from('x'), metadata) }
}

t.test('an agent whose holder is gone, one that does not serve a method', async (t) => {
  const [one, two] = (await startKasApps(t, 2)) as [KasApp, KasApp]
  const { agent } = await podAt(t, two)
  const route = async (command: string) => (await kas(command, one.socket)).stdout
  await eventually(async () => {
    const text = await route(`route --agent 42 --method ${echoMethod}`)
    if (!/^handed over to kas-1/m.test(text)) throw new Error(text)
  })
  t.match(await route('route --agent 42 --method /not.There/Method'), /^no way: the agent is connected, but no pod/m)
  t.match(await route('route --agent 42 --method /not.There/Method'), /^kas-1 +serving +reachable +0 +no$/m)
  agent.close()
  await eventually(async () => {
    const text = await route(`route --agent 42 --method ${echoMethod}`)
    if (!/^no way: no replica holds the agent/m.test(text)) throw new Error(text)
  })
})

t.test('a wrong query is answered with what is wrong', async (t) => {
  const [only] = (await startKasApps(t, 1)) as [KasApp]
  t.match(await kas('status'), { code: 2, stderr: /KAS_OPS_SOCKET/ })
  t.match(await kas('status', '/nowhere/kas.sock'), { code: 1, stderr: /no kas listens on \/nowhere\/kas\.sock/ })
  t.match(await kas('status --agent prod', only.socket), { code: 2, stderr: /allowed is an agent's id/ })
  t.match(await kas('route', only.socket), { code: 2, stderr: /--agent is missing/ })
  t.match(await kas('route --agent 42 --method Method', only.socket), { code: 1, stderr: /400: Method is no method/ })
  t.match(await kas('route --agent 9223372036854775808', only.socket), { code: 1, stderr: /no id of an agent/ })
  t.match(await kas('status --help'), { code: 0, stdout: /usage: kas status .*--socket FILE/s })
})
