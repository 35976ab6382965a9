import t from 'tap'
import type { FieldDifference } from '../../../../../../src/agentk/modules/gitops/drift/differences.ts'
import { shownDifference } from '../../../../../../src/agentk/modules/gitops/drift/shown-difference.ts'

const keyOf = (kind: string, group = '') => ({ group, kind, namespace: 'shop', name: 'a' })
const show = (difference: Partial<FieldDifference>, key = keyOf('ConfigMap'), rule?: string) =>
  shownDifference(
    { path: ['f:data', 'f:a'], kind: 'changed', before: '1', after: '2', ...difference },
    {
      key,
      by: 'unknown',
      rule,
    },
  )

t.test('values are JSON, so that 1 is not "1"', async (t) => {
  t.strictSame(show({ before: 1, after: '1' }), {
    path: '.data.a',
    kind: 'changed',
    before: '1',
    after: '"1"',
    by: 'unknown',
  })
  t.strictSame(Object.keys(show({ kind: 'missing', after: undefined })), ['path', 'kind', 'before', 'by'])
  t.strictSame(Object.keys(show({ kind: 'added', before: undefined })), ['path', 'kind', 'after', 'by'])
  t.equal(show({ before: null }).before, 'null')
  t.match(show({ after: { a: ['\u001b[31m\u202e'] } }), { after: '{"a":["\\u001b[31m\\u202e"]}' })
  t.equal(show({}, keyOf('ConfigMap'), 'paths: [.data.a]').rule, 'paths: [.data.a]')
})

t.test('paths and values are cut', async (t) => {
  const {
    path,
    before = '',
    after = '',
  } = show({
    path: ['f:data', `f:${'x'.repeat(10_000)}`],
    before: 'é'.repeat(10_000),
    after: 'x'.repeat(1022),
  })
  t.equal(path.length, 500)
  t.ok(path.endsWith('x…'))
  t.ok(Buffer.byteLength(before) <= 1024 + 3)
  t.ok(before.endsWith('é…'), 'no half of a character')
  t.equal(after.length, 1024, 'this one fits')
})

t.test('a Secret: no value, and keys of its content apart', async (t) => {
  const secret = keyOf('Secret')
  t.strictSame(show({ path: ['f:data', 'f:password'] }, secret), {
    path: '.data…',
    kind: 'changed',
    before: '***',
    after: '***',
    by: 'unknown',
    secretKey: 'password',
  })
  t.strictSame(show({ path: ['f:data'], kind: 'missing', before: { password: 'x' }, after: undefined }, secret), {
    path: '.data',
    kind: 'missing',
    before: '***',
    by: 'unknown',
  })
  t.match(show({ path: ['f:stringData', 'f:k'] }, secret), { path: '.stringData…', before: '***', secretKey: 'k' })
  for (const [path, isShown] of [
    [['f:metadata', 'f:annotations', 'f:vendor.example/token-value'], false],
    [['f:metadata', 'f:annotations', 'f:kubectl.kubernetes.io/last-applied-configuration'], false],
    [['f:metadata', 'f:annotations'], false],
    [['f:metadata'], false],
    [['f:metadata', 'f:annotations', 'f:agent.gitlab.com/digest'], false],
    [['f:metadata', 'f:annotations', 'f:config.k8s.io/owning-inventory'], true],
    [['f:metadata', 'f:labels', 'f:team'], true],
    [['f:metadata', 'f:uid'], true],
    [['f:type'], true],
    [['f:immutable'], true],
    [['f:anything'], false],
  ] as const)
    t.equal(show({ path }, secret).after, isShown ? '"2"' : '***', path.join(' '))
  const other = show({ path: ['f:data', 'f:password'] }, keyOf('Secret', 'example.com'))
  t.match(other, { path: '.data.password', after: '"2"' }, 'a kind of that name in another group')
})
