import { create } from '@bufbuild/protobuf'
import t from 'tap'
import { Loggers } from '../../../../src/agentk/configuration/loggers.ts'
import { AgentConfigurationSchema, log_level_enum } from '../../../../src/proto/gen/agentcfg_pb.ts'
import { capturedLog } from '../../../support/captured-log.ts'

t.test('a configuration sets the level of all parts', async (t) => {
  const { log, lines } = capturedLog()
  log.level = 'info'
  const loggers = new Loggers(log)
  const part = loggers.of('part')
  part.debug('not told')
  loggers.apply(create(AgentConfigurationSchema, { observability: { logging: { level: log_level_enum.debug } } }))
  part.debug('told')
  loggers.apply(create(AgentConfigurationSchema))
  log.debug('told too, since nothing was said about the level')
  loggers.apply(create(AgentConfigurationSchema, { observability: { logging: { level: log_level_enum.error } } }))
  part.warn('not told')
  log.warn('not told')
  t.match(lines, [
    { level: 'debug', mod_name: 'part', msg: 'told' },
    { level: 'debug', msg: /^told too/ },
  ])
  t.equal(lines.length, 2)
})
