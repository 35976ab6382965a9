import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { runCli } from '../../../../src/kas/cli/cli.ts'
import { commandGroups } from '../../../../src/kas/cli/commands.ts'
import { commandTree, flagsOf } from '../../../../src/kas/cli/completion/command-tree.ts'
import { subcommands, usage } from '../../../../src/kas/cli/program.ts'
import { foundShell, type ShellName } from '../../../support/completion/found-shell.ts'
import { proposalsOf } from '../../../support/completion/shells.ts'

async function kas(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  const said = { stdout: '', stderr: '' }
  const to = (name: 'stdout' | 'stderr') => ({
    write: (text: string) => {
      said[name] += text
    },
  })
  const io = { env: {}, stdout: to('stdout'), stderr: to('stderr'), stdin: (async function* () {})() }
  return { code: await runCli(args, io), ...said }
}

const places = await commandTree(commandGroups)
const help = usage(commandGroups)

/** Flags and words that the help lists for one position. */
interface Help {
  readonly at: string
  readonly expected: readonly string[]
}

const flagsIn = (text: string) =>
  [...text.matchAll(/(?<![\w-])(--[a-z][a-z-]*|-[a-zA-Z])(?![\w-])/g)].map(([flag]) => flag)

async function helps(): Promise<Help[]> {
  const words = [...new Set([...help.matchAll(/^ {2}kas ([a-z-]+)/gm)].map(([, word = '']) => word))]
  const root = { at: '', expected: [...words, ...flagsIn(help.split('\nOptions:\n')[1] ?? '')] }
  const all: Help[] = [root]
  for (const word of words) {
    const { stdout } = await kas(word, '--help')
    const verbs = [
      ...new Set(
        [...stdout.matchAll(new RegExp(`^usage: kas ${word} ([a-z]+)(?= |$)`, 'gm'))].map(([, verb = '']) => verb),
      ),
    ]
    const isGroup = verbs.length > 0 && !places.some(({ at, options }) => at === word && options.length > 1)
    all.push({ at: word, expected: [...verbs, ...(isGroup ? [] : flagsIn(stdout))] })
    for (const verb of isGroup ? verbs : []) {
      all.push({ at: `${word} ${verb}`, expected: flagsIn((await kas(word, verb, '--help')).stdout) })
    }
  }
  return all
}

const helped = await helps()
const folder = await mkdtemp(join(tmpdir(), 'completion-'))
t.teardown(() => rm(folder, { recursive: true, force: true }))
const shells: (readonly [ShellName, Awaited<ReturnType<typeof foundShell>>])[] = []
for (const name of ['bash', 'zsh', 'fish'] as const) shells.push([name, await foundShell(name, folder)])

t.test('the tables have each word and each flag of the help', async (t) => {
  t.strictSame(helped[0]?.expected.filter((one) => !one.startsWith('-')).sort(), subcommands(commandGroups).sort())
  t.ok(helped.length > 25)
  for (const { at, expected } of helped) {
    const place = places.find((one) => one.at === at)
    t.ok(place, at)
    const proposed = [...(place?.words ?? []), ...(place?.options.flatMap(flagsOf) ?? [])]
    for (const one of expected) t.ok(proposed.includes(one), `kas ${at}: ${one}`)
  }
})

t.test('nothing in the tables means something to a shell', async (t) => {
  for (const { at, words, options } of places) {
    for (const one of [at, ...words, ...options.flatMap((option) => [option.name, ...(option.values ?? [])])]) {
      t.match(one, /^[a-z -]*$/, one)
    }
  }
})

for (const [shell, found] of shells) {
  const skip = 'lacks' in found ? found.lacks : false
  t.test(`${shell} proposes each word and flag of the help, and of the tables`, { skip }, async (t) => {
    if ('lacks' in found) return
    const { code, stdout } = await kas('completion', shell)
    t.equal(code, 0)
    const propose = proposalsOf(found, folder, stdout)
    const behind = (at: string) => (at === '' ? 'kas ' : `kas ${at} `)
    const lines = places.flatMap(({ at }) => [behind(at), `${behind(at)}-`, `${behind(at)}--`])
    const answers = propose([...lines, 'kas tree -o ', 'kas check-config --output ', 'kas get --wa', 'kas tree agent '])
    for (const { at, words, options } of places) {
      const expected = helped.find((one) => one.at === at)?.expected ?? []
      for (const one of new Set([...words, ...options.flatMap(flagsOf), ...expected])) {
        const typed = `${behind(at)}${/^-*/.exec(one)?.[0] ?? ''}`
        t.ok(answers.get(typed)?.includes(one), `${typed}: ${one}`)
      }
    }
    t.strictSame(answers.get('kas tree -o ')?.toSorted(), ['json', 'table', 'yaml'], 'what the value may be')
    t.strictSame(answers.get('kas check-config --output ')?.toSorted(), ['json', 'table', 'yaml'])
    t.strictSame(answers.get('kas get --wa'), ['--watch'], 'what has begun')
    t.notOk(answers.get('kas tree agent ')?.includes('create'), 'no word of another command')
  })
}

t.test('another shell', async (t) => {
  for (const args of [[], ['tcsh'], ['bash', 'zsh']]) {
    const { code, stderr } = await kas('completion', ...args)
    t.equal(code, 2, args.join(' '))
    t.match(stderr, 'usage: kas completion bash|zsh|fish')
  }
})
