import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { bannedWords, bannedWordsIn } from '../../dev/census/words.ts'

/** Words with a private sense do not occur, except for the names that this file lists. */

/** Names that stay, everywhere or in the files of `within`, with the reason. */
const staying: readonly { readonly name: RegExp; readonly within?: RegExp; readonly reason: string }[] = [
  { name: /^(?:kas_row_held_back_total|kas_discovery_sources_silent)$/, reason: 'a metric' },
  { name: /^(?:PUSH_EVENT_UNTOLD|CALLER_OVER_SHARE)$/, reason: 'a code in logs and metrics' },
  { name: /^configuration_gone$/, reason: 'a value of a metric' },
  { name: /^beat$/, within: /^src\/membership\/metrics\.ts$/, reason: 'a value of a metric' },
  {
    name: /^(?:News|NewsSchema|BeatSchema|news|beat)$/,
    within: /^src\/membership\/table\/row-codec\.ts$/,
    reason: 'messages and fields of replica.proto',
  },
  {
    name: /^(?:why|gone)$/,
    within:
      /^src\/(?:kas\/modules\/views\/cli\/(?:received|shown-view|state-text|verdict-text)|proto\/views-json)\.ts$/,
    reason: 'fields of views, on the wire',
  },
  { name: /^held$/, within: /^src\/kas\/cli\/status\.ts$/, reason: 'a field of what a replica says at ops.socket' },
  {
    name: /^held$/,
    within:
      /^src\/(?:lib\/errors|kas\/(?:tunnels\/waiting\/scarcity|router\/refusals|servers\/ops-socket\/status-report))\.ts$/,
    reason:
      'a field of the error CALLER_OVER_SHARE, which goes between replicas, and of what a replica says at ops.socket',
  },
  { name: /^silent$/, within: /^src\/kas\/peers\/replica-links\.ts$/, reason: 'a field of what kas doctor reads' },
  {
    name: /^quiet$/,
    within: /^(?:src\/kas\/(?:command\/output|cli\/(?:cli|directory-help))\.ts|doc\/reference\/output\.md)$/,
    reason: 'an option of commands that print data',
  },
  { name: /^held$/, within: /^doc\/guide\/causes\.md$/, reason: 'names of situations in the vectors' },
  { name: /^[Ll]ook$/, within: /^doc\//, reason: 'what a person is to do' },
  {
    name: /^why$/,
    within: /^src\/kas\/servers\/ops-socket\/route-report\.ts$/,
    reason: 'a field of what a replica says at ops.socket',
  },
  {
    name: /^told$/,
    within: /^src\/(?:lib\/errors|kas\/directory\/gitlab\/(?:gitlab-advice|gitlab-reach|read-answer))\.ts$/,
    reason: 'a field of the error GITLAB_STATUS, in the log',
  },
  { name: /^beat$/, within: /^doc\/reference\/metrics\.md$/, reason: 'a value of a metric' },
  {
    name: /^(?:look|LookResponseSchema)$/,
    within: /^src\/kas\/modules\/repositories\/poll-sharing\.ts$/,
    reason: 'a method between replicas',
  },
  { name: /^why$/, within: /^src\/kas\/cli\/route\.ts$/, reason: 'a field of what a replica says at ops.socket' },
  { name: /^told$/, within: /^src\/kas\/cli\/doctor\/gitlab\.ts$/, reason: 'a field of the error GITLAB_STATUS' },
  {
    name: /^why$/,
    within:
      /^src\/agentk\/modules\/views\/(?:view\/view-state|watch\/(?:part-watch|kinds|registrations|unfollowed-kinds))\.ts$/,
    reason: 'a field of the state of views, on the wire',
  },
  {
    name: /^(?:told|tells?|looks?)$/i,
    within: /^doc\/reference\/(?:tunnel-protocol|gitlab-contract|captured|traps)\.md$/,
    reason: 'notes of what others do, as they were written down',
  },
]

const root = join(import.meta.dirname, '..', '..')
const files = [
  ...globSync('src/**/*.ts', { cwd: root, exclude: ['src/proto/gen/**'] }),
  ...globSync('doc/**/*.md', { cwd: root }),
  'README.md',
].filter((file) => !file.startsWith('src/proto/gen/'))

const texts = files.map((file) => [file, readFileSync(join(root, file), 'utf8')] as const)
const all = texts.flatMap(([file, text]) => bannedWordsIn(text).map((found) => ({ file, ...found })))
const isStaying = ({ name, within }: (typeof staying)[number], found: (typeof all)[number]) =>
  name.test(found.name) && (within?.test(found.file) ?? true)

t.test('there are none but those that stay', async (t) => {
  t.ok(files.length > 500, 'the files are found')
  for (const { words, write } of bannedWords) {
    const found = all
      .filter(({ word }) => words.includes(word))
      .filter((one) => !staying.some((each) => isStaying(each, one)))
    t.strictSame(
      found.map(({ file, line, name }) => `${file}:${line} ${name}`),
      [],
      `${words[0]}: write ${write}`,
    )
  }
  for (const each of staying)
    t.ok(
      all.some((one) => isStaying(each, one)),
      `${each.name} is there: ${each.reason}`,
    )
})

t.test('a planted one is found: in a name, in a sentence, in a private field', async (t) => {
  const of = (text: string) => bannedWordsIn(text).map(({ word, line }) => `${line} ${word}`)
  t.strictSame(of('const heldByAgent = 1\n/** Whoever is told. */'), ['1 held', '2 told'])
  t.strictSame(of('  readonly #told = new Set()\n  wishes: 1'), ['1 told', '2 wishes'])
  t.strictSame(of('  /** Why it is silent. */\n  why: string'), ['2 why'], 'ordinary in a sentence')
  t.strictSame(of('const HELD_BACK = isGone(x)'), ['1 held', '1 gone'])
  t.strictSame(of('// threshold, household, whywards, oversee, bold'), [])
})
