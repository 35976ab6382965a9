import t from 'tap'
import {
  type MayImpersonate,
  parseCallersMayImpersonate,
  parseMayImpersonate,
  refusedHeaders,
  refusedIdentity,
} from '../../../../src/agentk/cluster/may-impersonate.ts'
import { isImpersonationHeader } from '../../../../src/lib/impersonated-names.ts'
import type { Headers } from '../../../../src/proto/http/http-message.ts'
import { Seeded } from '../../../support/seeded.ts'

const nobody = { username: '', groups: [], uid: '', extra: [] }
const none: ReadonlySet<string> = new Set()

t.test('both lists are read, and both ways to write a service account are one', async (t) => {
  t.strictSame(parseCallersMayImpersonate([]), none)
  t.strictSame(
    parseCallersMayImpersonate(['user:ada', 'group:system:masters', 'serviceaccount:shop:deployer']),
    new Set(['user:ada', 'group:system:masters', 'serviceaccount:shop:deployer']),
  )
  t.strictSame(
    parseMayImpersonate(['user:system:serviceaccount:shop:deployer', 'extra:Scopes', 'uid:7', 'user:a b:c']),
    new Set(['serviceaccount:shop:deployer', 'extra:scopes', 'uid:7', 'user:a b:c']),
  )
  t.equal(parseCallersMayImpersonate(['any']), 'any')
  t.equal(parseCallersMayImpersonate(['user:ada', 'any']), 'any')
})

t.test('a malformed entry is named, with what is allowed', async (t) => {
  const malformed = [
    '',
    'ada',
    'user:',
    'user: ada',
    'user:ada ',
    'User:ada',
    'group:',
    'group:a\nb',
    'serviceaccount:a',
  ]
  for (const text of [...malformed, 'serviceaccount:a:b:c', 'serviceaccount::b', 'user:a\u0000', 'ANY']) {
    t.throws(() => parseCallersMayImpersonate([text]), /allowed: user:NAME, group:NAME, .* or any$/, text)
    t.throws(() => parseMayImpersonate([text]), /allowed: user:NAME, .* extra:KEY or uid:UID$/, text)
  }
  for (const text of ['extra:x', 'uid:x']) t.throws(() => parseCallersMayImpersonate([text]), /allowed:/, text)
  for (const text of ['any', 'extra:', 'uid: ']) t.throws(() => parseMayImpersonate([text]), /allowed:/, text)
})

t.test('an identity passes if all its names are on the list or are of GitLab', async (t) => {
  const allowed = parseMayImpersonate(['user:ada', 'serviceaccount:shop:deployer', 'extra:scopes', 'uid:7'])
  const passes = (identity: Partial<typeof nobody>) => refusedIdentity({ ...nobody, ...identity }, allowed)
  t.strictSame(passes({ username: 'ada', groups: ['gitlab:user'] as never, uid: '7' }), [])
  t.strictSame(passes({ username: 'system:serviceaccount:shop:deployer' }), [])
  t.strictSame(passes({ username: 'ada', extra: [{ key: 'SCOPES' }] as never }), [])
  t.strictSame(passes({ username: 'gitlab:user:ada', groups: ['system:masters'] as never }), ['group:system:masters'])
  t.strictSame(passes({ username: 'Ada' }), ['user:Ada'])
  t.strictSame(passes({ username: 'ada', uid: '8' }), ['uid:8'])
})

/** Spellings of `Impersonate-User`: random case, and `-` or `_` between the words. */
function spellings(name: string, seeded: Seeded): string[] {
  const random = () =>
    [...name].map((sign) => {
      if (sign === '-') return seeded.pick(['-', '_'])
      return seeded.pick([sign.toLowerCase(), sign.toUpperCase()])
    })
  const fixed = [name, name.toLowerCase(), name.toUpperCase(), name.replaceAll('-', '_')]
  return [...fixed, ...Array.from({ length: 50 }, () => random().join(''))]
}

t.test('no spelling of a header passes unjudged', async (t) => {
  const seeded = Seeded.for(t)
  const names = ['Impersonate-User', 'Impersonate-Group', 'Impersonate-Uid', 'Impersonate-Extra-Scopes', 'Impersonate-']
  const allowed = parseCallersMayImpersonate(['user:ada', 'group:ada'])
  for (const name of [...names, 'Impersonate-Userx', 'Impersonate-Future']) {
    for (const spelled of spellings(name, seeded)) {
      t.ok(isImpersonationHeader(spelled), spelled)
      t.not(refusedHeaders([[spelled, ['eve']]], none).length, 0, spelled)
      t.not(refusedHeaders([[spelled, ['eve']]], allowed).length, 0, spelled)
      t.strictSame(refusedHeaders([[spelled, ['eve']]], 'any'), [])
      t.not(refusedHeaders([[spelled, []]], allowed).length, 0, `${spelled} without a value`)
    }
  }
  for (const other of ['Impersonate', 'X-Impersonate-User', 'Accept']) t.notOk(isImpersonationHeader(other), other)
})

t.test('each name of a caller must be on the list exactly', async (t) => {
  const allowed = parseCallersMayImpersonate(['user:ada', 'user:jürgen', 'group:dev', 'serviceaccount:shop:deployer'])
  const bytes = (text: string) => Buffer.from(text).toString('latin1')
  const refused = (...request: Headers) => refusedHeaders(request, allowed)
  t.strictSame(refused(['Impersonate-User', ['ada']], ['Impersonate-Group', ['dev']], ['Accept', ['x']]), [])
  t.strictSame(refused(['impersonate-user', [bytes('jürgen')]]), [])
  t.strictSame(refused(['Impersonate-User', ['system:serviceaccount:shop:deployer']]), [])
  t.strictSame(refused(['Impersonate-User', ['ada', 'eve']]), ['user:eve'])
  t.strictSame(refused(['Impersonate-User', ['ada']], ['impersonate-USER', ['eve']]), ['user:eve'])
  t.strictSame(refused(['Impersonate-Group', ['dev', 'system:masters']]), ['group:system:masters'])
  t.strictSame(refused(['Impersonate-Group', ['dev']]), [], 'the API server refuses a group without a user')
  t.strictSame(refused(['Impersonate-User', ['']]), ['user:'])
  t.strictSame(refused(['Impersonate-User', ['ada']], ['Impersonate-Uid', ['7']]), ['any'])
  t.strictSame(refused(['Impersonate-User', ['ada']], ['Impersonate-Extra-Scopes', ['x']]), ['any'])
  t.strictSame(refused(['Impersonate_User', ['ada']]), ['any'])
  t.strictSame(refused(['Impersonate-User', ['\xff']]), ['any'], 'no UTF-8')
  for (const value of ['Ada', ' ada', 'ada ', 'ada\u0000', 'ad'])
    t.strictSame(refused(['Impersonate-User', [value]]), [`user:${value}`])
})

t.test('nothing on one list counts for the other', async (t) => {
  const lists: MayImpersonate = { callers: new Set(['user:ada']), kas: new Set(['user:bob']) }
  t.strictSame(refusedHeaders([['Impersonate-User', ['bob']]], lists.callers), ['user:bob'])
  t.strictSame(refusedIdentity({ ...nobody, username: 'ada' }, lists.kas), ['user:ada'])
})
