import { create } from '@bufbuild/protobuf'
import t, { type Test } from 'tap'
import { printableIo } from '../../../../../../../src/kas/cli/cli.ts'
import { writeNotes } from '../../../../../../../src/kas/modules/gitops/cli/diff/note/write-notes.ts'
import type { SourceResult } from '../../../../../../../src/kas/modules/gitops/cli/diff/source-result.ts'
import { systemClock } from '../../../../../../../src/lib/clock.ts'
import { PreviewEndSchema, PreviewedObjectSchema } from '../../../../../../../src/proto/gen/gitops_preview_pb.ts'
import { NotesDouble } from '../../../../../../support/gitlab/notes-double.ts'
import { hostileText, steering } from '../../../../../../support/hostile-texts.ts'
import { ManualClock } from '../../../../../../support/manual-clock.ts'

/** The note that `kas diff --note` keeps in a merge request. */

const token = 'glpat-secret-of-the-bot'
const [bot, ada] = [10, 11]
const commit = 'c'.repeat(40)

type End = Parameters<typeof create<typeof PreviewEndSchema>>[1] & object

const result = (source: string, end: End = { objects: 1, changed: 1 }): SourceResult => ({
  source,
  preview: { source, objects: [], end: create(PreviewEndSchema, end) },
})

const marker = (pipeline: number, source = '42-7', agent = '42') =>
  `<!-- kas diff agent=${agent} source=${source} pipeline=${pipeline} -->`

async function start(t: Test) {
  const gitlab = await NotesDouble.start(t, 'projects/1/merge_requests/2')
  gitlab.users.set(token, bot)
  gitlab.users.set('glpat-ada', ada)
  const job = {
    CI_API_V4_URL: gitlab.url,
    CI_PROJECT_ID: '1',
    CI_MERGE_REQUEST_IID: '2',
    CI_COMMIT_SHA: commit,
    GITLAB_TOKEN: token,
  }
  const write = async (pipeline: number, results: readonly SourceResult[], env: Record<string, string> = {}) => {
    let said = ''
    const stream = {
      write: (text: string) => {
        said += text
      },
    }
    const given = {
      ...job,
      CI_PIPELINE_ID: String(pipeline),
      CI_PIPELINE_URL: `https://g.example/p/${pipeline}`,
      ...env,
    }
    const io = printableIo({ env: given, stdout: stream, stderr: stream, stdin: (async function* () {})() })
    await writeNotes(results, '42', { io, clock: systemClock })
    t.notMatch(said, token)
    return said
  }
  return { gitlab, write, job }
}

t.test('one note for each agent and source, edited in place, with commit and pipeline', async (t) => {
  const { gitlab, write } = await start(t)
  t.equal(await write(100, [result('42-7'), result('42-8')]), '')
  t.equal(gitlab.notes.length, 2)
  const [first, second] = gitlab.notes
  t.match(first?.body.split('\n').slice(0, 3), [
    marker(100),
    '',
    `\`kas diff\` of commit ${commit}, pipeline [100](https://g.example/p/100), agent 42`,
  ])
  t.match(second?.body, marker(100, '42-8'))
  t.equal(await write(101, [result('42-7', { objects: 1, deleted: 3 })]), '')
  t.equal(gitlab.notes.length, 2)
  t.match(first?.body, /^<!-- kas diff agent=42 source=42-7 pipeline=101 -->[\s\S]*3 deleted/)
  t.match(second?.body, marker(100, '42-8'), 'that of the other source stays')
  t.equal(await write(101, [result('42-7')]), '', 'a job that is repeated writes again')
  t.match(first?.body, /1 changed/)
})

t.test('a note has at most 60,000 characters, with what is above the preview', async (t) => {
  const { gitlab, write } = await start(t)
  const action = 'changed'
  const objects = Array.from({ length: 2000 }, (_, i) =>
    create(PreviewedObjectSchema, { key: { kind: 'ConfigMap', namespace: 'shop', name: `ü-${i}` }, action }),
  )
  const end = create(PreviewEndSchema, { objects: 2000, changed: 2000 })
  const history = 'h'.repeat(500)
  await write(100, [{ source: '42-7', preview: { source: '42-7', objects, end }, history }])
  const { body = '' } = gitlab.notes[0] ?? {}
  t.ok(body.length > 59_000 && body.length <= 60_000, `${body.length}`)
  t.match(body, /more objects have no room in this note/)
})

t.test('a job does not overwrite the note of a newer pipeline', async (t) => {
  const { gitlab, write } = await start(t)
  const note = gitlab.add(`${marker(101)}\nnewer`, bot)
  t.equal(
    await write(100, [result('42-7')]),
    'kas diff: the note about source 42-7 stays: the newer pipeline 101 wrote it\n',
  )
  t.equal(note.body, `${marker(101)}\nnewer`)
  await write(1000, [result('42-7')])
  t.match(note.body, marker(1000), 'pipelines are compared as numbers')
})

t.test('a newer job that writes between reading and writing keeps its note', async (t) => {
  const { gitlab, write } = await start(t)
  const note = gitlab.add(`${marker(99)}\nold`, bot)
  gitlab.before = (request) => {
    if (request.endsWith(`/notes/${note.id}`)) note.body = `${marker(101)}\nnewer`
  }
  t.match(await write(100, [result('42-7')]), /stays: the newer pipeline 101 wrote it/)
  t.equal(note.body, `${marker(101)}\nnewer`)
  t.notOk(gitlab.asked.some((request) => request.startsWith('PUT')))
})

t.test('a note that is deleted meanwhile is made again', async (t) => {
  const { gitlab, write } = await start(t)
  const note = gitlab.add(marker(99), bot)
  gitlab.before = (request) => {
    if (request === `GET /api/v4/projects/1/merge_requests/2/notes/${note.id}`) gitlab.notes.length = 0
  }
  t.equal(await write(100, [result('42-7')]), '')
  t.match(gitlab.notes, [{ body: marker(100) }])
})

t.test('a result without changes replaces an older note, and makes none', async (t) => {
  const { gitlab, write } = await start(t)
  const nothing = result('42-7', { objects: 1 })
  t.equal(await write(100, [nothing]), '')
  t.equal(gitlab.notes.length, 0)
  await write(101, [result('42-7')])
  await write(102, [nothing])
  t.match(gitlab.notes, [{ body: /pipeline=102 -->[\s\S]*Nothing would change: 1 of 1 manifest compared/ }])
  t.equal(gitlab.notes.length, 1)
})

t.test('a source that is not compared replaces an older note too', async (t) => {
  const { gitlab, write } = await start(t)
  await write(100, [result('42-7')])
  await write(101, [{ source: '42-7', preview: { problem: 'kas is away' } }])
  t.match(gitlab.notes[0]?.body, /pipeline=101 -->[\s\S]*not compared: ` kas is away `/)
})

t.test('only notes of the token’s user count', async (t) => {
  const { gitlab, write } = await start(t)
  const foreign = gitlab.add(marker(99), ada)
  gitlab.add('changed the description', bot, { system: true })
  const quoted = gitlab.add(`> ${marker(99)}`, bot)
  const other = gitlab.add(marker(99, '42-7', '43'), bot)
  await write(100, [result('42-7')])
  t.strictSame([foreign.body, quoted.body, other.body], [marker(99), `> ${marker(99)}`, marker(99, '42-7', '43')])
  t.equal(gitlab.notes.length, 5)
})

t.test('two jobs that have made a note each: one of them stays', async (t) => {
  const { gitlab, write } = await start(t)
  gitlab.add(marker(98), bot)
  gitlab.add(marker(99), bot)
  await write(100, [result('42-7')])
  t.match(gitlab.notes, [{ id: 1, body: marker(100) }])
  t.equal(gitlab.notes.length, 1)
})

t.test('two jobs that make a note at the same time: that of the newer pipeline stays', async (t) => {
  for (const [meanwhile, stays] of [
    [99, 100],
    [100, 100],
    [101, 101],
  ] as const) {
    const { gitlab, write } = await start(t)
    gitlab.before = (request) => {
      if (request.startsWith('POST')) gitlab.add(marker(meanwhile), bot)
    }
    const said = await write(100, [result('42-7')])
    t.match(gitlab.notes, [{ body: marker(stays) }])
    t.equal(gitlab.notes.length, 1)
    t.equal(said.includes('stays: the newer pipeline 101 wrote it'), meanwhile > 100)
  }
  const { gitlab, write } = await start(t)
  gitlab.before = (request) => {
    if (request.startsWith('POST')) gitlab.add(marker(99), bot)
    if (request.startsWith('DELETE')) gitlab.notes.splice(0, 1)
  }
  t.equal(await write(100, [result('42-7')]), '', 'the other job has deleted it')
  t.equal(gitlab.notes.length, 1)
})

t.test('the note is found beyond the first page, and the search is bounded', async (t) => {
  const { gitlab, write } = await start(t)
  for (let i = 0; i < 100; i++) gitlab.add('a comment', ada)
  const note = gitlab.add(marker(99), bot)
  await write(100, [result('42-7')])
  t.match(note.body, marker(100))
  for (let i = 0; i < 2000; i++) gitlab.add('a comment', ada)
  const before = gitlab.asked.length
  t.match(
    await write(101, [result('42-8')]),
    /the note could not be written: the merge request has more than 2000 notes/,
  )
  t.equal(gitlab.asked.length - before, 101)
})

t.test('without a token, or outside of a merge request pipeline, one line says so', async (t) => {
  const { gitlab, write } = await start(t)
  const lines: [env: Record<string, string>, said: string][] = [
    [{ GITLAB_TOKEN: '' }, 'GITLAB_TOKEN is not set; the token of the job cannot write notes'],
    [{ GITLAB_TOKEN: 'a b' }, 'GITLAB_TOKEN is no token'],
    [{ CI_MERGE_REQUEST_IID: '' }, 'this is no job of a merge request pipeline: CI_MERGE_REQUEST_IID is not set'],
    [
      { CI_API_V4_URL: 'file:///etc', CI_COMMIT_SHA: '/merge', CI_PROJECT_ID: '../1' },
      'CI_API_V4_URL, CI_PROJECT_ID, CI_COMMIT_SHA: missing or wrong in the environment',
    ],
  ]
  for (const [env, said] of lines) t.equal(await write(100, [result('42-7')], env), `kas diff: no note: ${said}\n`)
  t.strictSame(gitlab.asked, [])
})

t.test('in the pipeline of a fork the merge request is in the other project', async (t) => {
  const { gitlab, write } = await start(t)
  await write(100, [result('42-7')], { CI_PROJECT_ID: '5', CI_MERGE_REQUEST_PROJECT_ID: '1' })
  t.equal(gitlab.notes.length, 1)
})

t.test('what GitLab refuses is one line, without the token', async (t) => {
  const { gitlab, write } = await start(t)
  for (const status of [401, 403, 404, 429, 500]) {
    gitlab.fault = status
    t.equal(
      await write(100, [result('42-7')]),
      `kas diff: the note could not be written: GitLab answered ${status}: *** is refused\n`,
    )
  }
  gitlab.fault = 302
  t.match(await write(100, [result('42-7')]), /GitLab answered 302/)
  t.equal(gitlab.asked.length, 6, 'nothing is asked again')
  t.match(
    await write(100, [result('42-7')], { CI_API_V4_URL: 'http://127.0.0.1:1/api/v4' }),
    /127\.0\.0\.1:1: .*ECONNREFUSED/,
  )
  const file = { CI_SERVER_TLS_CA_FILE: '/none', CI_API_V4_URL: 'https://127.0.0.1:1/api/v4' }
  t.match(await write(100, [result('42-7')], file), /CI_SERVER_TLS_CA_FILE: cannot be read/)
})

t.test('a GitLab that does not answer ends the note after its time', async (t) => {
  const { gitlab, job } = await start(t)
  const clock = new ManualClock()
  let said = ''
  const stream = {
    write: (text: string) => {
      said += text
    },
  }
  const env = { ...job, CI_PIPELINE_ID: '100' }
  const io = printableIo({ env, stdout: stream, stderr: stream, stdin: (async function* () {})() })
  gitlab.before = () => clock.advance(60_000)
  await writeNotes([result('42-7')], '42', { io, clock })
  t.equal(said, 'kas diff: the note could not be written: GitLab did not answer within 60 s\n')
})

/** Lines outside of code, and the fences: what GitLab reads as Markdown. */
function readAsMarkdown(body: string): string {
  const lines: string[] = []
  let fence = ''
  for (const line of body.split('\n')) {
    const [ticks = ''] = /^ {0,3}`{3,}/.exec(line) ?? []
    if (fence === '' && ticks !== '') fence = ticks.trim()
    else if (fence !== '' && ticks.trim().length >= fence.length && line.trim() === ticks.trim()) fence = ''
    else if (fence === '') lines.push(line)
  }
  t.equal(fence, '', 'each block is closed')
  return lines.map((line) => line.replaceAll(/(`+) .*? \1(?!`)/g, '').replaceAll(/<code>[^<]*<\/code>/g, '')).join('\n')
}

t.test('bad input: Markdown, mentions and quick actions in names, values, errors and paths', async (t) => {
  const { gitlab, write } = await start(t)
  const text = `\`\`\`\`\n/merge\n@all #1 !1 ~x </details>\n<img src=x> <!-- --> [a](b) ${'`'.repeat(9)} ${hostileText}`
  const field = { path: text, kind: 'changed', before: text, after: text, manager: text, operation: text, rule: text }
  const object = create(PreviewedObjectSchema, {
    key: { group: text, version: text, kind: text, namespace: text, name: text },
    action: text,
    file: text,
    line: 1,
    field: [field],
    ignored: [field],
    text,
    alsoDeleted: [text],
    alsoDeletedText: text,
  })
  const end = create(PreviewEndSchema, {
    objects: 1,
    changed: 1,
    commit: text,
    problem: text,
    refusal: { text, file: text, line: 1 },
  })
  const source = '42-7'
  const preview = { source, objects: [object, { ...object, action: 'changed' }], end }
  await write(
    100,
    [
      { source, preview },
      { source: '42-8', preview: { problem: text } },
    ],
    { CI_PIPELINE_URL: '](x) @all' },
  )
  t.equal(gitlab.notes.length, 2)
  for (const { body } of gitlab.notes) {
    t.strictSame(steering(body), [])
    t.notMatch(body, /^\s*\//m, 'no line begins with a quick action, not even in a block')
    const markdown = readAsMarkdown(body)
    t.notMatch(markdown, /@|#1|!1|~x|\[a\]|<img|EVIL/, markdown)
    t.equal(markdown.match(/<!--/g)?.length, 1)
    t.equal(markdown.match(/<details>/g)?.length, markdown.match(/<\/details>/g)?.length)
    t.match(body, /, pipeline 100, agent 42$/m, 'an address that is none is no link')
  }
  t.match(await write(100, [result('42-7 pipeline=9 -->')]), /no note: the id of source/)
})
