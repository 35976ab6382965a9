import t from 'tap'
import { historyText, projectPath } from '../../../../../../../src/kas/modules/gitops/cli/diff/repository.ts'
import { GitWorkTree } from '../../../../../../support/work-tree.ts'

t.test('the project is that of the job, or of the remote origin', async (t) => {
  const tree = await GitWorkTree.create(t, { a: 'a' })
  const env = { PATH: process.env.PATH }
  t.equal(await projectPath(tree.path, env), undefined)
  await tree.git('remote', 'add', 'origin', 'x')
  const paths = {
    'https://gitlab.example.com/platform/shop.git': 'platform/shop',
    'https://ci:token@gitlab.example.com/gitlab/platform/shop': 'gitlab/platform/shop',
    'git@gitlab.example.com:platform/shop.git': 'platform/shop',
    'ssh://git@gitlab.example.com:2222/platform/shop.git/': 'platform/shop',
    'https://gitlab.example.com/%E0%A4%A/shop': '%E0%A4%A/shop',
    '/srv/git/platform/shop.git': '/srv/git/platform/shop',
  }
  for (const [address, path] of Object.entries(paths)) {
    await tree.git('remote', 'set-url', 'origin', address)
    t.equal(await projectPath(tree.path, env), path, address)
  }
  t.equal(await projectPath(tree.path, { ...env, CI_PROJECT_PATH: 'a/b' }), 'a/b')
})

t.test('the history has the commit in the cluster, or lacks it', async (t) => {
  const tree = await GitWorkTree.create(t, { a: '1' })
  const old = await tree.git('rev-parse', 'HEAD')
  await tree.git('checkout', '--quiet', '-b', 'change')
  await tree.commit({ b: 'b' })
  t.equal(await historyText(tree.path, old, process.env), undefined)
  await tree.git('checkout', '--quiet', 'main')
  const merged = await tree.commit({ a: '2' })
  await tree.git('checkout', '--quiet', 'change')
  const lacking = (commit: string) =>
    `this branch lacks commit ${commit.slice(0, 8)}, which is in the cluster: merge or rebase first`
  t.equal(await historyText(tree.path, merged, process.env), lacking(merged))
  t.equal(await historyText(tree.path, 'f'.repeat(40), process.env), lacking('f'.repeat(8)), 'it was not fetched')
  await tree.git('merge', '--quiet', '--no-edit', 'main')
  t.equal(await historyText(tree.path, merged, process.env), undefined)
})

t.test('bad input: a ref that was forced: the commit in the cluster is in no history', async (t) => {
  const tree = await GitWorkTree.create(t, { a: '1' })
  const forced = await tree.commit({ a: '2' })
  await tree.git('reset', '--quiet', '--hard', 'HEAD~1')
  await tree.commit({ a: '3' })
  t.match(await historyText(tree.path, forced, process.env), /^this branch lacks commit /)
})

t.test('bad input: a shallow clone does not know a commit before its beginning', async (t) => {
  const tree = await GitWorkTree.create(t, { a: '0' })
  const commits: string[] = []
  for (let i = 1; i <= 22; i++) commits.push(await tree.commit({ a: String(i) }))
  const other = await GitWorkTree.create(t)
  const fetch = ['fetch', '--quiet', '--depth=20', `file://${tree.path}`, 'main']
  await other.git(...fetch)
  await other.git('checkout', '--quiet', 'FETCH_HEAD')
  t.equal(await other.git('rev-parse', '--is-shallow-repository'), 'true')
  const text = (i: number) => historyText(other.path, commits.at(i) ?? '', process.env)
  t.equal(await text(-1), undefined)
  t.equal(await text(-20), undefined)
  t.equal(
    await text(-21),
    `unknown: does this branch have commit ${commits.at(-21)?.slice(0, 8)}, which is in the cluster? The clone is shallow: git fetch --unshallow`,
  )
})

t.test('a commit that is no id is not given to git', async (t) => {
  const tree = await GitWorkTree.create(t, { a: '1' })
  for (const commit of ['', '--output=x', 'main', 'F'.repeat(40)])
    t.equal(await historyText(tree.path, commit, process.env), undefined, commit)
})
