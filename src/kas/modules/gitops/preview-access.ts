import { KasError } from '../../../lib/errors.ts'
import type { LocalDirectory } from '../../directory/local-directory.ts'
import type { OwnCaller } from '../../own-endpoint.ts'
import type { PreviewSource } from './preview-source.ts'

/**
 * Checks that a caller of the agent may preview a source, because agentk renders files that nobody has merged. Jobs of the
 * project of the source may, and users whose grant names it. So may those of the projects in `preview` of the source.
 * Without GitLab, users need a role in the project by the directory file.
 *
 * @throws KasError FORBIDDEN that says what to set
 */
export function checkPreviewer(
  { who }: Pick<OwnCaller, 'who'>,
  { id, projectId, preview }: Pick<PreviewSource, 'id' | 'projectId' | 'preview'>,
  localDirectory: Pick<LocalDirectory, 'isDeveloper'> | undefined,
): void {
  if (preview === 'none') throw forbidden(`source ${id} has preview: none in the file of the agent`)
  const isOf = (project: bigint) => {
    if (!who) return false
    return who.projectIds.includes(project) || (!who.isJob && localDirectory?.isDeveloper(who.userId, project) === true)
  }
  if ([projectId, ...preview].some(isOf)) return
  const others = preview.size > 0 ? ', and of the projects in its preview.projects,' : ''
  throw forbidden(
    `only jobs and users of project ${projectId}${others} may preview changes of source ${id}. ` +
      'Add the number of your project to preview.projects of the source, in the file of the agent',
  )
}

function forbidden(reason: string): KasError {
  return new KasError({ code: 'FORBIDDEN', reason })
}
