import { viewsFileSchema } from '../../../proto/views/schema.ts'
import type { FileSchema } from '../../agent-config/module-schema.ts'

/** What an agent's views are to show; agentk gets it as JSON. */
export const viewsFile: FileSchema = {
  name: 'views.yaml',
  schema: viewsFileSchema,
  refused: { services: 'this version shows no services' },
  maxJsonBytes: 256 * 1024,
}
