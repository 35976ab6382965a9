import type { KasHost, KasModule } from '../../module.ts'
import { configurationProjectService } from './rails-service.ts'

/** Which agents a project has files of. @returns undefined: without GitLab nobody knows where repositories lie */
export function createConfigurationProject({ repositories }: KasHost): KasModule | undefined {
  const { filesAt } = repositories
  if (!filesAt) return undefined
  return { name: 'configuration project', railsMethods: configurationProjectService(filesAt) }
}
