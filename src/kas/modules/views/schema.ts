import { viewsFileSchema } from '../../../proto/views/schema.ts'
import type { FileSchema } from '../../agent-config/module-schema.ts'

/** Contents of an agent's views; agentk gets them as JSON. */
export const viewsFile: FileSchema = {
  name: 'views.yaml',
  schema: viewsFileSchema,
  refused: { services: 'this version shows no services' },
  /** bytes of this JSON */
  maxJsonBytes: 256 * 1024,
}
