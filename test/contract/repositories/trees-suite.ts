import t, { type Test } from 'tap'
import type { Agent } from '../../../src/kas/agent.ts'
import type { CommitId, Reading, Repositories } from '../../../src/kas/repositories/repositories.ts'
import type { Trees } from '../../../src/kas/repositories/tree.ts'
import type { ErrorCode } from '../../../src/lib/errors.ts'
import type { Service } from '../../../src/lib/service.ts'
import { failure } from './repositories-suite.ts'

export interface TreesWorld {
  readonly repositories: Repositories & Trees & Pick<Service, 'stop'>
  readonly agent: Agent
  /** Commits files to the default branch `main`. Returns the commit. */
  push(files: Readonly<Record<string, string | Uint8Array>>): Promise<string>
  /** Adds a symbolic link to the next push. */
  link(path: string, target: string): Promise<void>
  /** Runs git in the clone from which the test pushes. */
  git(...args: string[]): Promise<string>
  /** URL of the repository to which the test pushes */
  readonly url: string
}

/** Promises of every Trees. */
export function treesSuite(name: string, start: (t: Test) => Promise<TreesWorld>): void {
  const signal = new AbortController().signal
  const limits = { maxFileBytes: 1 << 20, maxTotalBytes: 2 << 20 }
  const lost = 'deadbeef'.repeat(5) as CommitId

  const headOf = async ({ repositories }: TreesWorld, of: Reading) => (await repositories.head(of, signal)) as CommitId

  t.test(`${name}: the files of a commit, and of one folder; links and submodules are none`, async (t) => {
    const world = await start(t)
    const { repositories, agent, push, link, git } = world
    await link('link', 'a')
    await push({ 'b/x': '1', 'b/c/größe.yaml': 'ü', 'b/.hidden/y': '', 'ba/z': '1', a: 'A' })
    const module_ = `160000,${await git('rev-parse', 'HEAD')},module`
    await git('update-index', '--add', '--cacheinfo', module_)
    await git('commit', '--quiet', '--message', 'module')
    await git('push', '--quiet', world.url, 'HEAD:main')
    const commit = await headOf(world, agent)
    const listed = await repositories.files(agent, commit, '', signal)
    const files = [...listed]
    t.strictSame(
      (listed.links ?? []).map(({ path, isSubmodule }) => [path, isSubmodule]),
      [
        ['link', false],
        ['module', true],
      ],
    )
    const links = (listed.links ?? []).filter(({ isSubmodule }) => !isSubmodule)
    t.strictSame((await repositories.blobs(agent, commit, links, limits, signal)).map(String), ['a'], 'where it leads')
    t.strictSame(
      files.map(({ path }) => path),
      ['a', 'b/.hidden/y', 'b/c/größe.yaml', 'b/x', 'ba/z'],
    )
    t.ok(files.every(({ blob }) => /^[0-9a-f]{40}$/.test(blob)))
    t.equal(files[3]?.blob, files[4]?.blob, 'equal contents are one blob')
    const below = [...(await repositories.files(agent, commit, 'b', signal))]
    t.strictSame(
      below.map(({ path }) => path),
      ['b/.hidden/y', 'b/c/größe.yaml', 'b/x'],
    )
    t.strictSame([...(await repositories.files(agent, commit, 'none', signal))], [])
    t.strictSame([...(await repositories.files(agent, commit, 'b/*', signal))], [], 'no wildcards')
    const blobs = await repositories.blobs(agent, commit, files, limits, signal)
    t.strictSame(blobs.map(String), ['A', '', 'ü', '1', '1'])
    t.strictSame(await repositories.blobs(agent, commit, [], limits, signal), [])
  })

  t.test(`${name}: bytes are what they are, and bounded`, async (t) => {
    const world = await start(t)
    const { repositories, agent, push } = world
    const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => i % 256)
    await push({ large: bytes, lines: '\n\nblob 5\n', z: 'zz' })
    const commit = await headOf(world, agent)
    const files = [...(await repositories.files(agent, commit, '', signal))]
    const read = (maxFileBytes: number, maxTotalBytes: number) =>
      repositories.blobs(agent, commit, files, { maxFileBytes, maxTotalBytes }, signal)
    const [large, lines, z] = await read(300_000, 300_011)
    t.ok(Buffer.from(large ?? []).equals(bytes))
    t.strictSame([String(lines), String(z)], ['\n\nblob 5\n', 'zz'])
    const tooLarge = await failure(read(299_999, 1 << 20))
    t.equal(tooLarge.code, 'MANIFESTS_REFUSED' satisfies ErrorCode)
    t.match(tooLarge.message, /manifest file: large: has 300000 bytes, more than 299999$/)
    const tooMuch = await failure(read(300_000, 300_010))
    t.equal(tooMuch.code, 'MANIFESTS_REFUSED' satisfies ErrorCode)
    t.match(tooMuch.message, /manifest file: z: with the files before it more than 300010 bytes$/)
  })

  t.test(`${name}: a ref that was left is released once others follow it, or it has ended`, async (t) => {
    const { repositories, agent, push, git, url } = await start(t)
    await push({ a: '1' })
    await git('push', '--quiet', url, 'HEAD:stage')
    const of = { ...agent, ref: 'refs/heads/stage' }
    const released: string[] = []
    const follow = (who: string) =>
      repositories.onMove(of, () => undefined, { released: () => void released.push(who) })
    const [first, second] = [follow('first'), follow('second')]
    first()
    t.strictSame(released, ['first'], 'the second follows it')
    second()
    t.strictSame(released, ['first'], 'it is kept for a while')
    const third = follow('third')
    t.strictSame(released, ['first', 'second'])
    third()
    await repositories.stop()
    t.strictSame(released, ['first', 'second', 'third'])
  })

  t.test(`${name}: branches, tags and commits beside the default branch`, async (t) => {
    const world = await start(t)
    const { repositories, agent, push, git } = world
    const of = (ref: string) => ({ ...agent, ref })
    t.equal(await repositories.head(of('refs/heads/stage'), signal), undefined, 'the repository is empty')
    const one = (await push({ a: '1' })) as CommitId
    await git('tag', 'light')
    await git('tag', '--annotate', '--message', 'm', 'v1')
    await git('push', '--quiet', world.url, 'HEAD:stage', 'light', 'v1')
    const moved = new Promise<void>((resolve) => void t.teardown(repositories.onMove(of('refs/heads/other'), resolve)))
    t.equal((await failure(repositories.head(of('refs/heads/other'), signal))).code, 'REF_NOT_FOUND')
    const two = (await push({ a: '2' })) as CommitId
    await git('push', '--quiet', world.url, 'HEAD:other')
    await repositories.pollAfterNotice(agent.project.id)
    await moved
    const read = async (reading: Reading, commit: CommitId) => {
      const files = [...(await repositories.files(reading, commit, '', signal))]
      return (await repositories.blobs(reading, commit, files, limits, signal)).map(String)
    }
    for (const [ref, commit, content] of [
      ['refs/heads/stage', one, '1'],
      ['refs/tags/light', one, '1'],
      ['refs/tags/v1', one, '1'],
      [one, one, '1'],
      ['refs/heads/other', two, '2'],
      ['refs/heads/main', two, '2'],
    ] as const) {
      t.equal(await repositories.head(of(ref), signal), commit, ref)
      t.strictSame(await read(of(ref), commit), [content], ref)
    }
    for (const ref of ['refs/tags/stage', 'refs/heads/v1', lost]) {
      const error = await failure(repositories.head(of(ref), signal))
      t.equal(error.code, 'REF_NOT_FOUND' satisfies ErrorCode, ref)
      t.match(error.message, `ref ${ref} not found`)
    }
  })

  t.test(`${name}: a head contains the commits before it, also merged ones, and no others`, async (t) => {
    const world = await start(t)
    const { repositories, agent, push, git, url } = world
    const first = (await push({ a: '1' })) as CommitId
    await git('checkout', '--quiet', '-b', 'side')
    await git('commit', '--quiet', '--allow-empty', '--message', 'side')
    const side = (await git('rev-parse', 'HEAD')) as CommitId
    await git('checkout', '--quiet', '-b', 'other', first)
    await git('commit', '--quiet', '--allow-empty', '--message', 'other')
    const other = (await git('rev-parse', 'HEAD')) as CommitId
    await git('push', '--quiet', url, 'HEAD:other')
    await git('checkout', '--quiet', '-b', 'merged', first)
    await git('commit', '--quiet', '--allow-empty', '--message', 'overtaken')
    const overtaken = (await git('rev-parse', 'HEAD')) as CommitId
    await git('merge', '--quiet', '--no-edit', side)
    await git('push', '--quiet', url, 'HEAD:main')
    const of = { ...agent, ref: 'refs/heads/main' }
    const head = await headOf(world, of)
    for (const commit of [head, first, side, overtaken])
      t.equal(await repositories.contains(of, head, commit, signal), true, commit)
    for (const commit of [other, lost]) t.equal(await repositories.contains(of, head, commit, signal), false, commit)
    const ofOther = { ...agent, ref: 'refs/heads/other' }
    await headOf(world, ofOther)
    t.equal(await repositories.contains(ofOther, other, first, signal), true, 'another ref')
    t.equal(await repositories.contains(ofOther, other, side, signal), false)
    t.strictSame((await repositories.files(of, head, '', signal)).length, 1, 'what was fetched for files is whole')
  })

  t.test(`${name}: a commit that is not there has no files, which is an error`, async (t) => {
    const world = await start(t)
    const { repositories, agent, push } = world
    await push({ a: '1' })
    await headOf(world, agent)
    t.equal((await failure(repositories.files(agent, lost, '', signal))).code, 'REPOSITORY_FAILED' satisfies ErrorCode)
    const files = [{ path: 'a', blob: 'deadbeef'.repeat(5) }]
    const blobs = repositories.blobs(agent, lost, files, limits, signal)
    t.equal((await failure(blobs)).code, 'REPOSITORY_FAILED' satisfies ErrorCode)
  })
}
