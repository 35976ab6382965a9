import t from 'tap'
import type { AgentId } from '../../../../src/call/call.ts'
import { CallRecord } from '../../../../src/kas/access-log/call-record.ts'
import { askedStream } from '../../../../src/kubernetes/request/asked-stream.ts'
import { parseTarget } from '../../../../src/kubernetes/request/target.ts'
import { AccessLines } from '../../../support/access-lines.ts'
import { Seeded } from '../../../support/seeded.ts'

const access = { via: 'pat', agentId: 42n as AgentId, userId: 5n, username: 'ada', projectId: 1n } as const
const end = { status: 200, outcome: 'answered', received: 1, sent: 2 }
const client = {
  request: { method: 'GET', headers: { 'user-agent': 'kubectl', authorization: 'Bearer planted', cookie: 'planted' } },
  address: '10.0.0.7',
}

/** Paths with `planted` in every place where a caller can put a secret. Names, selectors and programs are logged. */
const targets = [
  '/api/v1/namespaces/web/secrets?resourceVersion=planted&continue=planted&fieldManager=planted',
  '/api/v1/namespaces/web/pods/a/exec?command=env&command=planted&command=-c%20planted&container=planted&tty=planted',
  '/api/v1/namespaces/web/pods/a/attach?container=planted',
  '/api/v1/namespaces/web/pods/a/log?container=planted&sinceTime=planted&follow=true',
  '/api/v1/namespaces/web/pods/a/proxy/planted/proxy/planted?labelSelector=planted&command=planted',
  '/api/v1/namespaces/web/services/https:s:443/proxy/planted?watch=true&fieldSelector=planted',
  '/api/v1/proxy/namespaces/web/pods/a/planted?planted=planted&labelSelector=planted',
  '/api/v1/nodes/n/proxy/planted',
  '/proxy/planted?planted',
  '/version?planted=planted',
  '/gitops/state?token=planted',
  '/apis/apps/v1/namespaces/web/deployments/d/scale?planted',
]
const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND']
const outcomes = ['answered', 'failed', 'cut', 'left', 'upgraded', 'token', 'endpoint']

t.test('planted secrets: in 10,000 lines none', async (t) => {
  const random = Seeded.for(t)
  const any = <T>(list: readonly T[]) => list[random.int(list.length)] as T
  const lines = new AccessLines({ rules: [{ level: 'metadata' }] })
  let calls = 0
  for (; lines.lines.length < 10_000; calls++) {
    const method = any(methods)
    const target = parseTarget(any(targets), '/')
    const isUpgrade = random.fraction() < 0.2
    const record = new CallRecord({ log: lines.log }, client, undefined)
    record.asks(method, target, { lasts: isUpgrade || askedStream(method, target) !== undefined, isUpgrade })
    record.calls(42n)
    record.letIn(access, any([undefined, 'gitlab:user:ada']))
    record.takenBy(any([undefined, 'kas-1']))
    record.answered(any([101, 200, 403, undefined]))
    const reason = any([undefined, 'TUNNEL_LOST'])
    record.ended({
      ...end,
      outcome: any(outcomes),
      status: any([200, 404, 502]),
      reason,
      delivery: any([undefined, 'maybe'] as const),
    })
    if (calls % 100 === 0) await new Promise(setImmediate)
  }
  t.notMatch(lines.text, /planted|Bearer/)
  t.match(lines.text, /"program":"env","arguments":2/)
  t.match(lines.text, /"address":"10\.0\.0\.7"/)
})

t.test('who left before anybody knew him, and what a front takes elsewhere, have none', async (t) => {
  const lines = new AccessLines({ rules: [{ level: 'metadata' }] })
  const record = (outcome: string, isKnown: boolean) => {
    const one = new CallRecord({ log: lines.log }, client, undefined)
    one.asks('POST', parseTarget('/api/v1/pods', '/'), { lasts: false, isUpgrade: false })
    if (isKnown) one.letIn(access, undefined)
    one.ended({ ...end, outcome, status: undefined })
  }
  record('left', false)
  record('redirected', true)
  record('preflight', false)
  record('left', true)
  t.match(await lines.count(1), [{ outcome: 'left', class: 'write' }])
  await lines.log.stop()
  t.equal(lines.lines.length, 1)
})
