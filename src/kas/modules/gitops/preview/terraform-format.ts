import type { Preview } from './preview.ts'

/**
 * Returns a report of GitLab's type `terraform`: three whole numbers, and nothing else, because guests of the project may
 * read it. An object that waits to be deleted counts as deleted. One that is created again, or taken over, is updated.
 */
export function terraformFormat({ end }: Pick<Preview, 'end'>): string {
  const { created, changed, adopted, recreated, deleted, waiting } = end
  return JSON.stringify({ create: created, update: changed + adopted + recreated, delete: deleted + waiting })
}
