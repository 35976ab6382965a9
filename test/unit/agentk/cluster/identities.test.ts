import t from 'tap'
import { Identities, maxLoggedEntries } from '../../../../src/agentk/cluster/identities.ts'
import { mayImpersonateNobody } from '../../../../src/agentk/cluster/may-impersonate.ts'
import type { Headers, Impersonation } from '../../../../src/proto/http/http-message.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { identities } from '../../../support/identities.ts'

const nobody: Impersonation = { username: '', groups: [], uid: '', extra: [] }
const ada = { ...nobody, username: 'gitlab:user:ada' }
const asEve: Headers = [['Impersonate-User', ['eve']]]
const masters: Headers = [
  ['impersonate-user', ['anybody']],
  ['Impersonate-Group', ['system:masters']],
]

t.test('by default a caller that acts as the agent names nobody', async (t) => {
  const some = identities()
  t.strictSame(some.headers(undefined, [['Accept', ['x']]]), [])
  t.strictSame(some.headers(ada), ['Impersonate-User', 'gitlab:user:ada'])
  for (const sent of [undefined, nobody]) {
    t.throws(() => some.headers(sent, masters), {
      code: 'IDENTITY_REFUSED',
      message:
        'agentk refuses Impersonate-* headers of callers that act as the agent: user:anybody, group:system:masters is not ' +
        'on the list of its flag --callers-may-impersonate (chart: impersonation.callers)',
    })
  }
})

t.test('callers name nobody beside an identity of kas or of agentk itself, whatever the lists say', async (t) => {
  const may = { callers: 'any', kas: new Set(['user:bot']) } as const
  t.throws(() => identities({ may }).headers(ada, asEve), { code: 'IDENTITY_REFUSED', message: /^Impersonate-\*/ })
  const own = { ...nobody, username: 'bot' }
  t.throws(() => identities({ may, own }).headers(undefined, asEve), { code: 'IDENTITY_REFUSED' })
  t.throws(() => identities({ may, own }).headers(ada), { code: 'STATUS', grpcCode: 14 }, 'a configuration error')
  t.strictSame(identities({ may, own }).headers(undefined), ['Impersonate-User', 'bot'])
})

t.test('what is on the lists passes', async (t) => {
  const may = { callers: new Set(['user:eve']), kas: new Set(['serviceaccount:shop:deployer']) }
  t.strictSame(identities({ may }).headers(undefined, asEve), ['Impersonate-User', 'eve'])
  t.throws(() => identities({ may }).headers(undefined, masters), { code: 'IDENTITY_REFUSED' })
  const account = ['Impersonate-User', 'system:serviceaccount:shop:deployer']
  t.strictSame(identities({ may }).accountHeaders({ namespace: 'shop', name: 'deployer' }), account)
  t.strictSame(identities({ may }).accountHeaders(undefined), [])
  t.throws(() => identities({ may }).accountHeaders({ namespace: 'kube-system', name: 'deployer' }), {
    code: 'IDENTITY_REFUSED',
    message:
      /serviceaccount:kube-system:deployer is not on the list of its flag --may-impersonate \(chart: impersonation\.allowed\)/,
  })
  const any = { callers: 'any', kas: new Set<string>() } as const
  const all: Headers = [...masters, ['Impersonate-Uid', ['1']], ['Impersonate-Extra-Scopes', ['x']]]
  t.equal(identities({ may: any }).headers(undefined, all).length, 8)
})

t.test('the log names what a list lacks, each entry once, and no more than so many of a list', async (t) => {
  const { log, lines } = capturedLog()
  const some = new Identities({ log }, { may: mayImpersonateNobody })
  const refused = (sent: Impersonation | undefined, request: Headers = []) =>
    t.throws(() => some.headers(sent, request), { code: 'IDENTITY_REFUSED' })
  const robot = { ...nobody, username: 'robot', groups: ['gitlab:x', 'ops'] }
  for (let i = 0; i < 3; i++) refused(robot)
  refused({ ...robot, groups: ['ops', 'more'] })
  refused(undefined, [['Impersonate-User', ['robot\u009b31m']]])
  t.match(lines, [
    { level: 'warn', entries: ['user:robot', 'group:ops'], flag: '--may-impersonate', chart: 'impersonation.allowed' },
    { entries: ['group:more'], flag: '--may-impersonate' },
    { flag: '--callers-may-impersonate', chart: 'impersonation.callers' },
  ])
  t.equal(lines.length, 3)
  for (let i = 0; i < 2 * maxLoggedEntries; i++)
    refused(undefined, [['Impersonate-User', [`user-${i}`.padEnd(4096, 'x')]]])
  const ofCallers = lines.filter(({ flag }) => flag === '--callers-may-impersonate')
  t.equal(ofCallers.flatMap(({ entries }) => entries).length, maxLoggedEntries)
  t.equal(ofCallers.at(-1)?.is_last, true)
  t.ok(JSON.stringify(lines).length < maxLoggedEntries * 600)
  refused({ ...nobody, username: 'deployer' })
  t.match(
    lines.at(-1),
    { entries: ['user:deployer'], flag: '--may-impersonate' },
    'callers take no place of the configuration',
  )
})

t.test('a message names ten entries, without what steers a terminal', async (t) => {
  const groups = Array.from({ length: 500 }, (_, i) => `group-${i}\u001b[31m`)
  t.throws(() => identities().headers({ ...ada, groups }), { message: /group:group-9\?\[31m and 490 more is not/ })
})
