import t from 'tap'
import { ComparedPath, readGlob } from '../../../../../src/kas/modules/gitops/glob-match.ts'
import type { KasError } from '../../../../../src/lib/errors.ts'

/** Compares a path with a glob. Returns the number of steps too. */
const compare = (glob: string, path: string) => {
  const effort = { steps: 0 }
  const isMatch = readGlob(glob).alternatives.some((matches) => matches(new ComparedPath(path), effort))
  return { isMatch, steps: effort.steps }
}

const rows: readonly (readonly [glob: string, matches: readonly string[], not: readonly string[]])[] = [
  ['**/*.{yaml,yml,json}', ['a.yaml', 'x/a.yml', '.x/y/a.json', '.yaml'], ['a.yam', 'a.yaml/b', 'yaml']],
  ['/**/*.yaml', ['a.yaml', 'x/y/a.yaml'], ['a.yml']],
  ['*.yaml', ['a.yaml', '.hidden.yaml'], ['x/a.yaml', 'a.yaml.bak']],
  ['prod/**', ['prod/a', 'prod/x/y/z'], ['prod', 'product/a', 'x/prod/a']],
  ['a/**/b', ['a/b', 'a/x/b', 'a/x/y/b'], ['a/bb', 'ab', 'a/b/c']],
  ['a**b', ['ab', 'axxb'], ['a/b']],
  ['**/**/x', ['x', 'a/x', 'a/b/c/x'], ['xx']],
  ['**', ['a', 'a/b'], []],
  ['**/', [], ['a', 'a/b']],
  ['a?c', ['abc', 'aüc', 'a😀c'], ['ac', 'a/c', 'abbc']],
  ['[a-c]x', ['ax', 'cx'], ['dx', 'x']],
  ['[^a-c]x', ['dx'], ['ax', 'x']],
  ['[!a]x', ['bx'], ['ax']],
  ['[\\]\\-x]', [']', '-', 'x'], ['a']],
  ['{a,b/{c,d}}/*.y', ['a/1.y', 'b/c/1.y', 'b/d/1.y'], ['b/1.y', 'c/1.y']],
  ['{a,}x', ['ax', 'x'], ['a,x']],
  ['a\\*b', ['a*b'], ['axb']],
  ['a\\{b,c\\}', ['a{b,c}'], ['ab']],
  ['(a|b)+@!(c)$^.', ['(a|b)+@!(c)$^.'], ['a', 'b']],
  ['{1..3}', ['1..3'], ['1', '2']],
  ['', [], ['a']],
]

for (const [glob, matching, others] of rows) {
  t.test(`glob ${glob}`, async (t) => {
    for (const path of matching) t.ok(compare(glob, path).isMatch, path)
    for (const path of others) t.notOk(compare(glob, path).isMatch, path)
  })
}

t.test('the folder below which all matches lie', async (t) => {
  const folders = { 'a/b/*.yaml': 'a/b', '/a/b/c.yaml': 'a/b', '**/x': '', 'x.yaml': '', 'a/{b,c}/d': 'a', 'a*/b': '' }
  for (const [glob, folder] of Object.entries(folders)) t.equal(readGlob(glob).folder, folder, glob)
})

t.test('what is malformed, or stands for too much, is refused by name', async (t) => {
  const refused = (glob: string) => {
    try {
      readGlob(glob)
      return 'taken'
    } catch (error) {
      return (error as KasError).message
    }
  }
  for (const glob of ['[a', 'a\\', '{a,b', '{[}', '[]', '[^]', 'a/[b-', '{a,{b}']) {
    t.match(refused(glob), `manifest file: glob ${glob} match failed: syntax error in pattern`, glob)
  }
  t.match(refused('{a,b}'.repeat(7)), 'more than 100 alternatives')
  t.match(refused(`{${'{a,b,c,d,e,f},'.repeat(19)}x}`), 'more than 100 alternatives')
  t.match(refused(`${'{a,b}'.repeat(6)}${'{}'.repeat(15)}`), 'more than 20 {', 'also where they stand for nothing')
  t.equal(refused(`${'{a,b}'.repeat(6)}${'{}'.repeat(14)}`), 'taken')
  t.match(refused('x'.repeat(1025)), 'more than 1024 characters')
  t.equal(refused('{a,b}'.repeat(6)), 'taken')
})

t.test('no glob makes a path cost more than their lengths', async (t) => {
  for (const [glob, path] of [
    [`${'*a'.repeat(200)}[b]`, 'a'.repeat(4000)],
    [`${'**/'.repeat(20)}[b]`, 'a/'.repeat(500)],
    [`*${'a'.repeat(40)}[b]`, 'a'.repeat(4000)],
    [`**/${'[a-y]'.repeat(150)}*[z]`, 'b'.repeat(4000)],
  ] as const) {
    const { isMatch, steps } = compare(glob, path)
    t.notOk(isMatch, glob)
    t.ok(steps < glob.length * path.length * 2, `${steps} steps`)
    t.ok(steps > path.length, 'they are counted')
  }
  t.ok(compare('**/*.yaml', 'apps/production/web/deployment.yaml').steps < 300)
  t.ok(compare(`${'*a'.repeat(200)}b`, 'a'.repeat(4000)).steps < 10, 'which ends otherwise')
})

t.test('a comparison that takes too long is refused by the name of its glob', async (t) => {
  for (const [glob, path] of [
    [`${'**/'.repeat(340)}*a`, `${'a/'.repeat(2047)}ba`],
    [`${'**/*/'.repeat(200)}a*a`, `${'a/'.repeat(2047)}ba`],
    [`**/*${'a'.repeat(900)}[b]`, 'a'.repeat(4095)],
    [`${'**/*[!b]/'.repeat(110)}a*`, `${'aaa/'.repeat(1023)}a`],
    [`*${'[a-bc-de-f]'.repeat(90)}[z]`, 'a'.repeat(4095)],
  ] as const) {
    const effort = { steps: 0 }
    const [matches] = readGlob(glob).alternatives
    const refused = `glob ${glob} match failed: it takes too long to compare with a path of ${path.length} characters`
    try {
      matches?.(new ComparedPath(path), effort)
      t.fail(`${glob} is compared to the end`)
    } catch (error) {
      t.match((error as Error).message, refused)
    }
    t.ok(effort.steps < 250_000, `${effort.steps} steps`)
  }
})
