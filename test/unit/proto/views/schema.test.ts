import t from 'tap'
import { parseModuleFile } from '../../../../src/kas/agent-config/module-blocks.ts'
import { viewsFile } from '../../../../src/kas/modules/views/schema.ts'
import { KasError } from '../../../../src/lib/errors.ts'

const parse = (text: string) => JSON.parse(parseModuleFile(viewsFile, 'views.yaml', Buffer.from(text)))

function problemOf(text: string | Uint8Array): string {
  try {
    parseModuleFile(viewsFile, 'views.yaml', Buffer.from(text))
  } catch (error) {
    return KasError.from(error).message
  }
  throw new Error('nothing was refused')
}

t.test('all keys, as they stand there', async (t) => {
  const text = `
follow: { namespaces: [shop, pay], kinds: [Pod, apps/Deployment, '*.example.com/*'], exclude: [Secret] }
verdict: argo
health:
  - kind: example.com/Widget
    let: { state: "at(object, 'status.state', '')" }
    rules: [{ when: state == 'Up', verdict: Healthy, text: state }]
    tests: [{ object: { status: null }, verdict: null }]
`
  const views = parse(text)
  t.strictSame(views.follow.kinds, ['Pod', 'apps/Deployment', '*.example.com/*'])
  t.strictSame(views.health[0].tests, [{ object: { status: null }, verdict: null }], 'what is null stays so')
  t.strictSame(parse(''), {})
  t.strictSame(parse('# nothing\n'), {})
})

t.test('what is wrong is told with its line', async (t) => {
  const cases: [text: string, problem: string][] = [
    ['verdict: best', 'line 1: verdict: found "best", allowed: one of argo, kstatus'],
    ['verdict: argo\nfollow:\n  kinds: ["a b"]', 'line 3: follow.kinds[0]: found "a b", allowed: group/Kind, or Kind'],
    ['follow: [shop]', 'line 1: follow: found a list, allowed: a block of keys'],
    ['health:\n  - kind: Pod\n    rules: []', 'line 3: health[0].rules: found a list, allowed: at least one rule'],
    ['health: [{ rules: [{ when: "true", verdict: Healthy }] }]', 'health[0].kind: found nothing, allowed: a text'],
    ['\nservices:\n  - name: prometheus', 'line 2: services: this version shows no services'],
    [
      'follow:\n  namespace: [shop]',
      'line 2: follow.namespace: this key is not known, did you mean follow.namespaces?',
    ],
    [
      'health:\n  - kind: Pod\n    rule: []\n',
      'line 3: health[0].rule: this key is not known, did you mean health[0].rules?',
    ],
    ['verdict: [', 'not YAML'],
    ['- a', 'found a list, allowed: a block of keys'],
  ]
  for (const [text, problem] of cases) t.ok(problemOf(text).includes(problem), `${problemOf(text)} | ${problem}`)
  t.match(problemOf(Buffer.from([0xff])), /views.yaml: not UTF-8/)
})

t.test('its bounds', async (t) => {
  const many = (count: number, of: (i: number) => string) => Array.from({ length: count }, (_, i) => of(i)).join(', ')
  t.match(problemOf(`follow: { kinds: [${many(301, (i) => `K${i}`)}] }`), /a list of at most 300/)
  t.match(problemOf(`follow: { namespaces: [${many(2001, (i) => `n${i}`)}] }`), /a list of at most 2000/)
  const rule = '{ when: "true", verdict: Healthy }'
  t.match(problemOf(`health: [${many(65, (i) => `{ kind: K${i}, rules: [${rule}] }`)}]`), /a list of at most 64/)
  t.match(problemOf(`follow: { namespaces: [${'x'.repeat(513)}] }`), /at most 512 characters/)
  t.match(
    problemOf(`health: [{ kind: A, rules: [{ when: ${'x'.repeat(300_000)}, verdict: Healthy }] }]`),
    /262144 bytes/,
  )
  t.match(problemOf(`a: [${many(40_001, () => '1')}]`), /more than 40000 values/)
})
