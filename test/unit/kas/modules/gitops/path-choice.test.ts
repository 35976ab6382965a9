import { create } from '@bufbuild/protobuf'
import t from 'tap'
import { readPaths } from '../../../../../src/kas/modules/gitops/chosen-files.ts'
import { PathChoice } from '../../../../../src/kas/modules/gitops/path-choice.ts'
import { PathCFSchema } from '../../../../../src/proto/gen/gitops_pb.ts'

const choiceOf = (...globs: readonly string[]) =>
  new PathChoice(readPaths(globs.map((value) => create(PathCFSchema, { path: { case: 'glob', value } }))))

t.test('globs that take too long are refused, and others have their turn meanwhile', async (t) => {
  const choice = choiceOf(...Array(150).fill(`${'*a'.repeat(10)}*c*b/x`))
  let turns = 0
  const count = () => {
    turns += 1
    running = setImmediate(count)
  }
  let running = setImmediate(count)
  t.teardown(() => clearImmediate(running))
  const compare = async () => {
    for (let i = 0; i < 5000; i++) await choice.chooses(`${'a'.repeat(200)}${i}b/x`)
  }
  await t.rejects(compare(), { code: 'MANIFESTS_REFUSED', message: /take too long to compare with all files/ })
  t.ok(turns > 100, `${turns} turns`)
})

t.test('hidden folders are left out, and a named file is chosen', async (t) => {
  const choice = new PathChoice({
    ...readPaths([create(PathCFSchema, { path: { case: 'glob', value: '**/*.yaml' } })]),
    files: ['b/c.txt'],
  })
  for (const [path, isChosen] of [
    ['a.yaml', true],
    ['x/a.yaml', true],
    ['x/.a/b.yaml', false],
    ['.x/a.yaml', false],
    ['b/c.txt', true],
    ['b/d.txt', false],
  ] as const) {
    t.equal(await choice.chooses(path), isChosen, path)
  }
})
