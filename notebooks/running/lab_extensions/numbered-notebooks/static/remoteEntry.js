// JupyterLab chooses a viewer by a file's name alone. Jupytext's own setting would open every Python
// module as a notebook; this file type takes numbered percent files only. One file, no build.
const FACTORY = "Jupytext Notebook";
const FILE_TYPE = {
  name: "numbered-notebook",
  displayName: "Notebook",
  contentType: "notebook",
  pattern: "^[0-9][0-9]_.*\\.py$",
};

function activate(app) {
  const registry = app.docRegistry;
  const register = () => {
    if (registry.getFileType(FILE_TYPE.name) || !registry.getWidgetFactory(FACTORY)) return;
    registry.addFileType(FILE_TYPE, [FACTORY]);
    registry.setDefaultWidgetFactory(FILE_TYPE.name, FACTORY);
  };
  register();
  registry.changed.connect(register); // Jupytext may start later
}

const plugin = { id: "numbered-notebooks:plugin", autoStart: true, activate };
(window._JUPYTERLAB ??= {})["numbered-notebooks"] = {
  init: () => {},
  get: async () => () => ({ __esModule: true, default: plugin }),
};
