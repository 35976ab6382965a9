import { create, type MessageInitShape } from '@bufbuild/protobuf'
import t from 'tap'
import { exitCode } from '../../../../../../src/kas/modules/gitops/preview/exit-code.ts'
import { hideValues } from '../../../../../../src/kas/modules/gitops/preview/hide-values.ts'
import { markdownFormat } from '../../../../../../src/kas/modules/gitops/preview/markdown-format.ts'
import { ndjsonFormat } from '../../../../../../src/kas/modules/gitops/preview/ndjson-format.ts'
import { readNdjson } from '../../../../../../src/kas/modules/gitops/preview/ndjson-reader.ts'
import type { Preview } from '../../../../../../src/kas/modules/gitops/preview/preview.ts'
import { terraformFormat } from '../../../../../../src/kas/modules/gitops/preview/terraform-format.ts'
import { textFormat } from '../../../../../../src/kas/modules/gitops/preview/text-format.ts'
import { isPrintable } from '../../../../../../src/lib/printable.ts'
import { PreviewEndSchema, PreviewedObjectSchema } from '../../../../../../src/proto/gen/gitops_preview_pb.ts'
import { hostileText } from '../../../../../support/hostile-texts.ts'

type ObjectInit = MessageInitShape<typeof PreviewedObjectSchema>
type EndInit = MessageInitShape<typeof PreviewEndSchema>

const preview = (objects: readonly ObjectInit[], end: EndInit = {}): Preview => ({
  source: '42-7',
  objects: objects.map((one) => create(PreviewedObjectSchema, one)),
  end: create(PreviewEndSchema, { commit: 'c0ffee', ...end }),
})

const key = (name: string, kind = 'Deployment') => ({ group: 'apps', version: 'v1', kind, namespace: 'shop', name })

/** A preview with each action. */
const whole = preview(
  [
    {
      key: key('web'),
      action: 'changed',
      file: 'deploy/web.yaml',
      line: 12,
      field: [
        { path: '.spec.replicas', kind: 'changed', before: '2', after: '3' },
        { path: '.spec.paused', kind: 'missing', after: 'true' },
      ],
      more: 3,
      ignored: [{ path: '.spec.x', kind: 'changed', before: '1', after: '2', rule: '{ managers: [hpa] }' }],
    },
    {
      key: key('new'),
      action: 'created',
      file: 'deploy/new.yaml',
      line: 1,
      unverified: true,
      text: 'its namespace comes too',
    },
    {
      key: key('old'),
      action: 'waits',
      text: 'more than half of the objects',
      alsoDeleted: ['Pod/a'],
      moreAlsoDeleted: 2,
    },
    { key: key('kept'), action: 'stays', text: 'prune: never' },
    { key: key('bad'), action: 'fails', file: 'deploy/bad.yaml', line: 3, text: 'spec.selector: field is immutable' },
    {
      key: key('moved'),
      action: 'drifted',
      field: [
        { path: '.spec.image', kind: 'changed', before: '"a"', after: '"b"', manager: 'kubectl', operation: 'Update' },
      ],
    },
  ],
  {
    objects: 8,
    notCompared: 2,
    changed: 1,
    created: 1,
    waiting: 1,
    staying: 1,
    failing: 1,
    drifted: 1,
    unverified: 1,
    cut: 1,
  },
)

t.test('text: groups, places, values before and after, and counts last', async (t) => {
  t.equal(
    textFormat(whole),
    [
      'source 42-7: compared with commit c0ffee',
      '',
      'fails: 1',
      '  Deployment shop/bad  deploy/bad.yaml:3',
      '    spec.selector: field is immutable',
      '',
      'waits for approval to be deleted: 1',
      '  Deployment shop/old',
      '    more than half of the objects',
      '    also deleted: Pod/a, 2 more',
      '',
      'created: 1',
      '  Deployment shop/new  deploy/new.yaml:1',
      '    not verified: its namespace comes too',
      '',
      'changed: 1',
      '  Deployment shop/web  deploy/web.yaml:12',
      '    .spec.replicas',
      '    - 2',
      '    + 3',
      '    .spec.paused',
      '    + true',
      '    and 3 more',
      '    .spec.x; left to others: { managers: [hpa] }',
      '    - 1',
      '    + 2',
      '',
      'leaves Git and stays in the cluster: 1',
      '  Deployment shop/kept',
      '    prune: never',
      '',
      'changed in the cluster, and not by this change: 1',
      '  Deployment shop/moved',
      '    .spec.image, by kubectl (Update)',
      '      Git:     "a"',
      '      cluster: "b"',
      '',
      '1 of these is not verified.',
      '1 of these is not listed: there was no room.',
      'Not compared: 2 of your manifests: you may not read them.',
      '1 fails, 1 created, 1 changed, 1 waits for approval, 1 stays, 1 drifted; 6 of 8 manifests compared.',
      '',
    ].join('\n'),
  )
})

t.test('text: a refusal and a problem come first', async (t) => {
  const lines = textFormat(
    preview([], {
      objects: 3,
      refusal: { text: 'unknown kind', file: 'a.yaml', line: 4 },
      problem: 'the API server is busy',
    }),
  ).split('\n')
  t.strictSame(lines.slice(2, 4), [
    'The commit would be refused: a.yaml:4: unknown kind',
    'Not all could be compared: the API server is busy',
  ])
})

t.test('nothing is said to be in order unless all was compared', async (t) => {
  const last = (end: EndInit) => textFormat(preview([], end)).trimEnd().split('\n').at(-1)
  t.equal(last({ objects: 3 }), 'Nothing would change: 3 of 3 manifests compared.')
  for (const end of [{ notCompared: 1 }, { problem: 'x' }, { refusal: { text: 'x' } }]) {
    const isRefused = 'refusal' in end
    t.match(last({ objects: 3, ...end }), isRefused ? 'The commit would be refused: x' : /^No change is known: /)
    t.notMatch(markdownFormat(preview([], { objects: 3, ...end })), 'Nothing would change')
  }
  t.match(textFormat(preview([], { commit: '' })), 'no commit of it has been applied yet')
})

t.test('exit codes', async (t) => {
  const cases: readonly (readonly [EndInit, number])[] = [
    [{ objects: 3 }, 0],
    [{}, 0],
    [{ objects: 3, staying: 1, drifted: 2 }, 0],
    [{ objects: 3, notCompared: 2 }, 0],
    ...(['created', 'changed', 'adopted', 'recreated', 'deleted', 'waiting'] as const).map((name) => {
      return [{ objects: 3, [name]: 1 }, 1] as const
    }),
    [{ objects: 3, created: 1, unverified: 1 }, 1],
    [{ objects: 3, notCompared: 3 }, 5],
    [{ objects: 3, problem: 'x' }, 5],
    [{ objects: 3, created: 1, problem: 'x' }, 5],
    [{ objects: 3, failing: 1, problem: 'x' }, 4],
    [{ objects: 3, refusal: { text: '' } }, 4],
  ]
  for (const [end, code] of cases) t.equal(exitCode(preview([], end)), code, JSON.stringify(end))
})

t.test('terraform: three whole numbers', async (t) => {
  const end = {
    created: 1,
    changed: 2,
    adopted: 3,
    recreated: 4,
    deleted: 5,
    waiting: 6,
    staying: 7,
    drifted: 8,
    failing: 9,
  }
  t.equal(terraformFormat(preview([], end)), '{"create":1,"update":9,"delete":11}')
  t.equal(terraformFormat(preview([])), '{"create":0,"update":0,"delete":0}')
})

t.test('NDJSON: keys of the messages, and read again', async (t) => {
  const text = ndjsonFormat(whole)
  const lines = text.trimEnd().split('\n')
  t.match(JSON.parse(lines[0] as string), { type: 'object', key: { kind: 'Deployment' }, action: 'changed', more: 3 })
  t.match(JSON.parse(lines.at(-1) as string), {
    type: 'end',
    source: '42-7',
    exit_code: 4,
    not_compared: 2,
    waiting: 1,
    at_ms: '0',
  })
  t.strictSame(readNdjson(text), whole)
  const newer = `{"type":"warning"}\n${text.replace('"action"', '"new":1,"action"')}`
  t.strictSame(readNdjson(newer), whole, 'as a newer kas may write it')
})

t.test('NDJSON: what is wrong is named by its line, and by no value', async (t) => {
  const text = ndjsonFormat(whole)
  t.throws(() => readNdjson('secret'), { message: 'line 1 is no JSON' })
  t.throws(() => readNdjson('["secret"]'), { message: 'line 1 is no object of JSON' })
  t.throws(() => readNdjson('{"type":"object","line":"secret"}'), { message: 'line 1 is no object of a preview' })
  t.throws(() => readNdjson(text.slice(0, text.lastIndexOf('{'))), { message: 'the preview has no end' })
  t.throws(() => readNdjson(`${text}{"type":"object"}\n`), { message: 'line 8 comes after the end' })
})

t.test('without values: counts, names, paths, and what agentk itself says', async (t) => {
  const planted = preview([
    {
      key: key('web'),
      action: 'changed',
      field: [{ path: '.spec.a', before: '"PLANTED"', after: '"PLANTED"' }],
      ignored: [{ path: '.spec.b', before: '"PLANTED"', after: '"PLANTED"' }],
    },
    { key: key('bad'), action: 'fails', text: 'found PLANTED' },
    { key: key('next'), action: 'of a newer agentk', text: 'found PLANTED' },
    { key: key('new'), action: 'created', unverified: true, text: 'its namespace comes too' },
    { key: key('drifted'), action: 'drifted', field: [{ path: '.spec.c', before: '"PLANTED"', after: '"PLANTED"' }] },
    { key: key('kept'), action: 'stays', text: 'prune: never' },
  ])
  const shown = hideValues(planted)
  for (const text of [textFormat(shown), markdownFormat(shown), ndjsonFormat(shown), terraformFormat(shown)]) {
    t.notMatch(text, 'PLANTED')
  }
  t.match(textFormat(shown), 'the reason is hidden: --values (over HTTP values=true) shows it')
  for (const text of ['.spec.a', '.spec.b', '.spec.c', 'prune: never', 'its namespace comes too', 'shop/bad'])
    t.match(textFormat(shown), text)
})

t.test('without values: items of sets in paths are values', async (t) => {
  const paths = [
    ['.metadata.finalizers[="PLANTED"]', '.metadata.finalizers[=…]'],
    ['.spec.a[="PLANTED ]\\" PLANTED"].b', '.spec.a[=…].b'],
    ['.spec.a[=7]', '.spec.a[=…]'],
    ['.spec.a[="PLANTED…', '.spec.a[=…]'],
    ['.spec.containers[name="app"].image', '.spec.containers[name="app"].image'],
    ['.data.a=b', '.data.a=b'],
  ] as const
  for (const [path, shown] of paths) {
    const [object] = hideValues(preview([{ key: key('web'), action: 'changed', field: [{ path }] }])).objects
    t.equal(object?.field[0]?.path, shown)
  }
})

t.test('nothing is said of commits in the cluster if nothing was compared', async (t) => {
  for (const end of [
    { commit: '', problem: 'no' },
    { commit: '', refusal: { text: 'no' } },
  ]) {
    for (const format of [textFormat, markdownFormat]) {
      const [first] = format(preview([], end)).split('\n')
      t.match(first, /: not compared$/)
    }
  }
})

/** Texts that Markdown, or GitLab, would take for something. */
const markups: readonly string[] = [
  '```\n/merge\n```',
  '````',
  '`',
  '` @all `',
  '\n/merge\n@all',
  '/close',
  '<details><script>alert(1)</script>',
  '</code></summary></details>',
  '<!-- ',
  '![x](https://evil.example/x.png)',
  '[x](javascript:alert(1))',
  '<https://evil.example>',
  'https://evil.example',
  '#1 !1 ~bug %v1 &1 $1 @all',
  '| a | b |',
  '**bold** _x_ $`math`$ :tada: [[wiki]]',
  '&lt;b&gt; &#64;all',
  '---\n# title',
  '\\`',
  hostileText,
]

/** Returns a note without code: spans, blocks with any fence, and code elements that have no raw signs in them. */
function outsideCode(note: string): string {
  const kept: string[] = []
  let fence = ''
  for (const line of note.split('\n')) {
    const [, ticks = ''] = /^(`{3,})(?:diff)?$/.exec(line) ?? []
    if (fence !== '') {
      if (line === fence) fence = ''
    } else if (ticks !== '') fence = ticks
    else kept.push(line)
  }
  return kept
    .map((line) => line.replaceAll(/(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)/g, 'CODE'))
    .map((line) => line.replaceAll(/<code>(?:[A-Za-z0-9 ._-]|&#\d+;)*<\/code>/g, 'CODE'))
    .join('\n')
}

t.test('Markdown: no name, path, error or value is markup, a mention, a reference or a quick action', async (t) => {
  const plain = outsideCode(markdownFormat(hostile('plain')))
  for (const text of markups) {
    const note = markdownFormat(hostile(text))
    t.equal(outsideCode(note), plain)
    const wrong = note.split('\n').filter((line) => /^\s*\//.test(line) || !isPrintable(line))
    t.strictSame(wrong, [], 'no line begins with a slash, or has what a terminal reads')
    // older versions of GitLab end a block at three backticks, whatever its fence is
    const inside = note.split('\n').filter((line) => /^\s*`{3,}/.test(line))
    t.ok(
      inside.every((line) => /^`{3,}(?:diff)?$/.test(line)),
      'fences alone begin with backticks',
    )
  }
})

/** A preview with a text at each place that others can write. */
function hostile(text: string): Preview {
  const field = {
    path: text,
    kind: 'changed',
    before: text,
    after: text,
    manager: text,
    operation: text,
    secretKey: text,
  }
  return {
    ...preview(
      [
        {
          key: { group: text, version: text, kind: text, namespace: text, name: text },
          action: 'changed',
          file: text,
          line: 1,
          field: [field],
          ignored: [{ ...field, rule: text }],
          text,
          alsoDeleted: [text],
          alsoDeletedText: text,
        },
        { key: key(text), action: 'drifted', field: [field] },
        { key: key('x'), action: `new ${text}` },
      ],
      { commit: text, problem: text, refusal: { text, file: text, line: 1 } },
    ),
    source: text,
  }
}

t.test('text and NDJSON cannot steer a terminal, and a name cannot look like two lines', async (t) => {
  const lines = (text: string) => text.trimEnd().split('\n')
  const expected = lines(textFormat(hostile('plain'))).length
  for (const text of markups) {
    const shown = textFormat(hostile(text))
    t.equal(lines(shown).length, expected)
    const all = [...lines(shown), ...lines(ndjsonFormat(hostile(text)))]
    t.strictSame(
      all.filter((line) => !isPrintable(line)),
      [],
    )
  }
  t.strictSame(readNdjson(ndjsonFormat(hostile('a\u001b[2J'))), hostile('a\u001b[2J'), 'values are the same')
})

t.test('Markdown: problems first, a fold an object, and counts', async (t) => {
  const note = markdownFormat(whole)
  t.ok(note.startsWith('**Preview** of source ` 42-7 `: compared with commit ` c0ffee `\n'))
  t.match(note, '1 fails, 1 created')
  t.equal(note.split('<details>').length - 1, whole.objects.length)
  t.ok(note.indexOf('shop&#47;bad') < note.indexOf('shop&#47;web'), 'what fails comes first')
  t.match(note, '- 2\n+ 3\n')
})

t.test('Markdown: at most 60,000 characters, then the number of the others', async (t) => {
  const many = Array.from({ length: 2000 }, (_, i) => ({
    key: key(`web-${i}`),
    action: 'created',
    file: 'a.yaml',
    line: 1,
    field: [{ path: '.data', kind: 'added' }],
  }))
  const note = markdownFormat(preview(many, { objects: 2000, created: 2000 }))
  t.ok(note.length <= 60_000 && note.length > 55_000, `${note.length}`)
  const folds = note.split('<details>').length - 1
  t.match(note, `${2000 - folds} more objects have no room in this note.`)
  const backticks = { key: key('x'), action: 'changed', field: [{ path: '.a', after: '`'.repeat(1_000_000) }] }
  const long = markdownFormat(preview([backticks], { problem: '`'.repeat(1_000_000) }))
  t.ok(long.length <= 60_000, `${long.length}`)
  t.match(long, '1 more object has no room')
})
