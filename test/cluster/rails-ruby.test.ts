import { join } from 'node:path'
import * as grpc from '@grpc/grpc-js'
import t from 'tap'
import { jwt } from '../contract/rails-server/start-server.ts'
import { echoMethod, FakeAgent } from '../support/fake-agent.ts'
import { Processes } from '../support/processes.ts'
import { pathsOfRuby, withoutRuby } from '../support/ruby.ts'
import { agentToken, type KasApp, startKasApps } from './kas-apps.ts'

/** GitLab's own client, ruby-grpc, through each of three replicas, one of which holds the agent. */

const program = join(import.meta.dirname, '../peers/rails-ruby/calls.rb')

// wire: 8153.ruby, 8153.agent-call
t.test('ruby-grpc calls an agent through any replica', { skip: withoutRuby }, async (t) => {
  const replicas = (await startKasApps(t, 3)) as [KasApp, KasApp, KasApp]
  const agent = await FakeAgent.dial(replicas[1].port('Agentk API'), agentToken)
  t.teardown(() => agent.close())
  const processes = await Processes.start(t)
  for (const replica of replicas) {
    const [unary, bidi, late, left] = [agent.open(), agent.open(), agent.open(), agent.open()] // used in this order
    for (const tunnel of [unary, bidi, left]) void tunnel.serveEcho()
    const ruby = await processes.spawn({
      command: 'ruby',
      args: [program, `127.0.0.1:${replica.port('API')}`, echoMethod],
      environment: { KAS_JWT: await jwt(), ...pathsOfRuby() },
    })
    const { code, stdout, stderr } = await ruby.ends()
    t.equal(code, 0, `${replica.name} ${stderr}`)
    const told = String(stdout)
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as object)
    t.strictSame(
      told,
      [
        { what: 'unary', response: 'hello' },
        { what: 'bidi', answers: ['a', 'b'] },
        { what: 'deadline', code: grpc.status.DEADLINE_EXCEEDED },
        { what: 'cancel', code: grpc.status.CANCELLED },
      ],
      replica.name,
    )
    const ends = [grpc.status.DEADLINE_EXCEEDED, grpc.status.CANCELLED]
    t.ok(ends.includes((await late.done).error?.grpcCode ?? 0), `${replica.name}: the deadline reaches the agent`)
    t.equal((await left.done).error?.grpcCode, grpc.status.CANCELLED, `${replica.name}: and who leaves does too`)
  }
})
