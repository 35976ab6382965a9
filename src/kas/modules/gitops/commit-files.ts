import type { CommitId, Reading } from '../../repositories/repositories.ts'
import { type BlobLimits, maxPathBytes, type TreeFile, type TreeFiles, type Trees } from '../../repositories/tree.ts'
import { chosenFiles, chosenLinks, type FileChoice, type Spend, tooManyFiles } from './chosen-files.ts'
import { type FollowedLinks, followLinks, maxLinks } from './links.ts'

/** The content of a link is a path. */
const linkLimits: BlobLimits = { maxFileBytes: maxPathBytes, maxTotalBytes: maxLinks * maxPathBytes }

/** Listed files per unit of the agent's budget: 0.1 ms. */
const filesOfUnit = 50

export interface CommitOf {
  readonly repositories: Pick<Trees, 'files' | 'blobs'>
  readonly reading: Reading
  readonly commit: CommitId
  readonly choice: FileChoice
  readonly maxFiles: number
  readonly pay: Spend
  readonly signal: AbortSignal
}

export interface CommitFiles {
  /** files of the listing */
  readonly visited: number
  /** chosen files; a link has its own path, and the file that it leads to */
  readonly files: readonly { readonly path: string; readonly file: TreeFile }[]
  /** as in `FollowedLinks` */
  readonly leftOut: readonly string[]
}

/** Chooses files of a commit by the paths. Listings are dropped afterwards. @throws KasError as `chosenFiles` */
export async function commitFiles(of: CommitOf): Promise<CommitFiles> {
  const { repositories, reading, commit, choice, maxFiles, pay, signal } = of
  const tree = await repositories.files(reading, commit, choice.folder, signal)
  await pay(tree.length / filesOfUnit)
  const chosen = await chosenFiles(choice, tree, maxFiles, pay)
  const links = await linkedFiles(of, tree)
  if (chosen.length + links.files.length > maxFiles) throw tooManyFiles(maxFiles)
  const files = [...chosen.map((file) => ({ path: file.path, file })), ...links.files]
  return { visited: tree.length, files, leftOut: links.leftOut }
}

/** Returns the links that the paths choose, and their files. */
async function linkedFiles(of: CommitOf, tree: TreeFiles): Promise<FollowedLinks> {
  const { repositories, reading, commit, choice, pay, signal } = of
  const links = await chosenLinks(choice, tree, pay)
  if (links.length === 0) return { files: [], leftOut: [] }
  return await followLinks(links, {
    tree,
    folder: choice.folder,
    read: (all) => repositories.blobs(reading, commit, all, linkLimits, signal),
    list: async (folder) => {
      const listed = await repositories.files(reading, commit, folder, signal)
      await pay(listed.length / filesOfUnit)
      return listed
    },
  })
}
