import t from 'tap'
import type { AgentId } from '../../../../../src/call/call.ts'
import { CallRecord } from '../../../../../src/kas/access-log/call-record.ts'
import type { Authorized } from '../../../../../src/kas/servers/kubernetes/authorization/authorize.ts'
import type { NewSession, SessionEnds } from '../../../../../src/kas/servers/kubernetes/authorization/sessions.ts'
import type { Exchange } from '../../../../../src/kas/servers/kubernetes/http/exchange.ts'
import type { RequestSpan } from '../../../../../src/kas/servers/kubernetes/http/request-span.ts'
import { lastMessageOf } from '../../../../../src/kas/servers/kubernetes/last-message.ts'
import { readRequestHead } from '../../../../../src/kas/servers/kubernetes/request/request-head.ts'
import { RequestLife } from '../../../../../src/kas/servers/kubernetes/request-life.ts'
import { parseTarget } from '../../../../../src/kubernetes/request/target.ts'
import { KasError } from '../../../../../src/lib/errors.ts'
import { AccessLines } from '../../../../support/access-lines.ts'
import { ManualClock } from '../../../../support/manual-clock.ts'

const agentId = 42n as AgentId
const ended = new KasError({ code: 'SESSION_ENDED', reason: 'of the test' })
const unauthorized = new KasError({ code: 'USER_UNAUTHORIZED' })
const access = { via: 'pat', agentId, userId: 5n, username: 'ada', projectId: 1n } as const
const letInAs: Authorized = { impersonation: undefined, access, projectIds: [], configProjectId: 1n }
const credentials = { kind: 'user', agentId, candidates: [] } as const
const watching = lastMessageOf('watch', {
  statusCode: 200,
  status: '200 OK',
  header: [['Content-Type', ['application/json']]],
})

/** Starts a request life. It records the calls of its listeners. */
function start(path = '/api/v1/pods?watch=true') {
  const events: string[] = []
  const clock = new ManualClock()
  const lines = new AccessLines({ rules: [{ level: 'metadata' }] })
  const exchange = {
    request: { method: 'GET', headers: {} },
    address: '10.0.0.7',
    upgrade: undefined,
    asked: undefined as string | undefined,
    statusCode: undefined as number | undefined,
    bytes: { received: 0, sent: 7 },
    isHalfWritten: false,
    endWithReason: undefined as ((reason: KasError) => void) | undefined,
    connection: { letIn: (...[agent, key]: [bigint, string]) => void events.push(`connection: ${agent} ${key}`) },
    leave: (reason: KasError) => void events.push(`left: ${reason.code}`),
    cut: () => void events.push('cut'),
    finish: () => void events.push('finished'),
  }
  const span = {
    traceId: 'abc',
    metadata: { traceparent: 'x' },
    calls: (id: bigint) => void events.push(`span: ${id}`),
    end: (_: Exchange, outcome: string, error?: KasError) => void events.push(`span: ${outcome} ${error?.code}`),
  }
  const record = new CallRecord({ log: lines.log }, exchange, 'abc')
  const life = new RequestLife(
    { exchange: exchange as unknown as Exchange, span: span as unknown as RequestSpan, record },
    { clock, metrics: { ended: (outcome) => void events.push(`metrics: ${outcome}`) } },
  )
  const sessions: { asked: NewSession; ends: SessionEnds }[] = []
  const table = {
    open: (asked: NewSession, first: SessionEnds) => {
      const session = { asked, ends: first }
      sessions.push(session)
      return {
        end: (reason: KasError) => session.ends.end(reason),
        endsBy: (ends: SessionEnds) => {
          session.ends = ends
        },
        close: () => void events.push('session: closed'),
      }
    },
  }
  const isRead = () => {
    const rawHeaders = ['Host', 'kas', 'Impersonate-User', 'eve']
    life.read(
      readRequestHead({ rawHeaders, httpVersionMajor: 1, httpVersionMinor: 1 }, false),
      'https://gitlab.example.com',
    )
    life.asks(parseTarget(path, '/'))
  }
  const isLetIn = () => {
    isRead()
    life.calls(agentId)
    life.knows(access)
    life.letIn({ agentId, callerKey: 'key', access, as: 'gitlab:user:ada', warning: '299 kas "soon"' })
    life.opens(table, { credentials, letInAs, since: 3 })
  }
  const isAnswered = () => {
    isLetIn()
    life.forwarding()
    life.takenBy('kas-1')
    life.delivered()
    exchange.statusCode = 200
    life.answers(200, watching)
  }
  return { life, exchange, record, events, clock, lines, sessions, isRead, isLetIn, isAnswered }
}

t.test('each event goes to those that it concerns, once', async (t) => {
  const { life, exchange, record, events, lines, sessions, isAnswered } = start()
  isAnswered()
  t.equal(exchange.asked, 'watch')
  t.equal(life.traceId, 'abc')
  t.equal(life.auditId, record.auditId)
  t.strictSame(life.metadata, { traceparent: 'x' })
  t.match(life.progress, { delivery: 'maybe', origin: 'https://gitlab.example.com', warning: '299 kas "soon"' })
  t.strictSame(
    sessions.map(({ asked }) => asked),
    [{ record, credentials, letInAs, since: 3, traceId: 'abc' }],
  )
  life.shows('pods of web')
  life.settle()
  life.ended('answered')
  t.strictSame(events, [
    'span: 42',
    'connection: 42 key',
    'session: closed',
    'finished',
    'metrics: answered',
    'span: answered undefined',
  ])
  t.match(await lines.count(2), [
    { event: 'begin', verb: 'watch', status: 200, agent_id: '42', as: 'gitlab:user:ada', asked_as: ['user:eve'] },
    { event: 'end', outcome: 'answered', holder: 'kas-1', view: 'pods of web', trace_id: 'abc', sent: 7 },
  ])
})

t.test('who has signed a request stays unknown to the access log', async (t) => {
  const { life, events, lines, isRead } = start('/hooks/git/1')
  isRead()
  life.letIn({ agentId: 0n as AgentId, callerKey: '/hooks/git/', access: undefined })
  life.ended('endpoint')
  t.strictSame(events, ['connection: 0 /hooks/git/', 'finished', 'metrics: endpoint', 'span: endpoint undefined'])
  t.strictSame(lines.lines, [])
})

t.test('it ends early by its session, or by itself where it has none', async (t) => {
  const without = start()
  without.isRead()
  without.life.end(unauthorized)
  t.strictSame(without.events, ['left: USER_UNAUTHORIZED'], 'nothing was answered: the reason will be')
  t.equal(without.life.progress.withdrawal, unauthorized)

  const { life, exchange, events, sessions, isLetIn } = start()
  isLetIn()
  sessions[0]?.ends.end(ended)
  t.equal(events.at(-1), 'left: SESSION_ENDED')
  life.end(unauthorized)
  exchange.endWithReason?.(unauthorized)
  t.equal(life.progress.withdrawal, ended, 'the first reason stays')
  t.equal(events.filter((event) => event.startsWith('left')).length, 1)
})

t.test(
  'a stream between two events ends at once, one within an event a second later, unless it has ended by then',
  async (t) => {
    const between = start()
    between.isAnswered()
    between.life.end(ended)
    t.equal(between.events.at(-1), 'left: SESSION_ENDED')

    const within = start()
    within.isAnswered()
    within.life.progress.writes(Buffer.from('{"type":'))
    within.life.end(ended)
    t.strictSame(within.clock.waits, [1000])
    within.clock.advance(1000)
    t.equal(within.events.at(-1), 'left: SESSION_ENDED')

    const settled = start()
    settled.isAnswered()
    settled.exchange.isHalfWritten = true
    settled.life.end(ended)
    settled.life.settle()
    t.equal(settled.clock.pending, 0)
    t.equal(settled.events.at(-1), 'session: closed')
  },
)

t.test('after its failure only a connection that was upgraded is cut', async (t) => {
  for (const [statusCode, last] of [
    [200, 'connection: 42 key'],
    [101, 'cut'],
  ] as const) {
    const { life, exchange, events, isLetIn } = start()
    isLetIn()
    exchange.statusCode = statusCode
    life.fail(unauthorized)
    life.end(ended)
    t.equal(events.at(-1), last)
    life.ended('failed')
    t.equal(events.at(-1), 'span: failed USER_UNAUTHORIZED')
  }
})

t.test(
  'what a connection has become ends in place of the request, and changes with its caller if it can',
  async (t) => {
    const { life, sessions, events, isLetIn } = start()
    isLetIn()
    const withdraw = (reason: KasError) => void events.push(`withdrawn: ${reason.code}`)
    life.becomes({ withdraw })
    t.notOk('changed' in (sessions[0]?.ends ?? {}))
    life.becomes({ withdraw, changed: () => void events.push('changed') })
    sessions[0]?.ends.changed?.(undefined)
    life.end(ended)
    t.strictSame(events.slice(-2), ['changed', 'withdrawn: SESSION_ENDED'])
    t.equal(life.progress.withdrawal, ended)
  },
)

t.test('what ended it stands at the end of its line, and whether the cluster may have it', async (t) => {
  const { life, lines, isAnswered } = start()
  isAnswered()
  life.withdraw(ended)
  life.ended('left')
  t.match(await lines.count(2), [{}, { outcome: 'left', reason: 'SESSION_ENDED', delivery: 'maybe' }])
})
